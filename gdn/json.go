package gdn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// JSONError rewrites an error of encoding/json about data in the words of JSON instead of Go: the line of a syntax error, or the field with the found and
// wanted kind.
func JSONError(data []byte, err error) error {
	line := func(offset int64) int { return 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n")) }
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")), bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return errors.New("the document begins with a byte order mark: save it as UTF-8 without one")
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: %w", line(syntax.Offset), err)
	case errors.As(err, &kind):
		at := "the document"
		if kind.Field != "" {
			at = "field " + kind.Field
		}
		return fmt.Errorf("%s is %s, want %s", at, jsonValue(kind.Value), jsonKind(kind.Type))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("line %d: it ends before it is whole", line(int64(len(data))))
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// jsonValue describes the Value of an UnmarshalTypeError.
func jsonValue(value string) string {
	switch value {
	case "array", "object":
		return "an " + value
	case "bool":
		return "true or false"
	case "string", "number":
		return "a " + value
	}
	return strings.TrimPrefix(value, "number ") // a number with its digits
}

// jsonKind describes the JSON values that a Go type accepts.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonKind(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map, reflect.Interface:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "an integer that fits"
}
