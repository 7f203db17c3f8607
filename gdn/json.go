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

// JSONError says in the words of JSON what encoding/json refused in data: the line where it can not be read, or the field, what
// is there and what is wanted.
func JSONError(data []byte, err error) error {
	line := func(offset int64) int { return 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n")) }
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
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

// jsonValue reads the Value of an UnmarshalTypeError.
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

// jsonKind is what a type of Go reads from JSON.
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
