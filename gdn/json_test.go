package gdn

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJSONError(t *testing.T) {
	for text, want := range map[string]string{
		"[]":                               "the document is an array, want an object",
		"{\n\"size\": \"big\"}":            "field size is a string, want an integer that fits",
		"{\"size\": 1.5}":                  "field size is 1.5, want an integer that fits",
		"{\"size\": 99999999999999999999}": "field size is 99999999999999999999, want an integer that fits",
		"{\"list\": {}}":                   "field list is an object, want an array",
		"{\"part\": {\"on\": 1}}":          "field part.on is a number, want true or false",
		"{\"part\": {\"name\": true}}":     "field part.name is true or false, want a string",
		"{\"wide\": []}":                   "field wide is an array, want a number",
		"{\"bogus\": 1}":                   "unknown field \"bogus\"",
		"{\"size\": 1,\n":                  "line 2: it ends before it is whole",
		"\xef\xbb\xbf{}":                   "the document begins with a byte order mark: save it as UTF-8 without one",
		"\xff\xfe{\x00}\x00":               "the document begins with a byte order mark: save it as UTF-8 without one",
		"":                                 "line 1: it ends before it is whole",
		"{\n\n x}":                         "line 3: invalid character 'x' looking for beginning of object key string",
	} {
		var v struct {
			Size *int     `json:"size"`
			Wide float64  `json:"wide"`
			List []string `json:"list"`
			Part struct {
				On   bool   `json:"on"`
				Name string `json:"name"`
			} `json:"part"`
		}
		d := json.NewDecoder(bytes.NewReader([]byte(text)))
		d.DisallowUnknownFields()
		require.EqualError(t, JSONError([]byte(text), d.Decode(&v)), want)
	}
}
