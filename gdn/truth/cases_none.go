package truth

import (
	"strings"

	"github.com/gdngen/gdngen/gdn"
)

// parse reads the spec of a stored case, which may have no tokens or no batch rows.
func parse(text string) (gdn.Spec, error) {
	fields := strings.Split(text, ",")
	none := map[string]bool{}
	for i, f := range fields {
		if key, value, _ := strings.Cut(strings.TrimSpace(f), "="); (key == "t" || key == "b") && value == "0" {
			fields[i], none[key] = key+"=1", true
		}
	}
	s, err := gdn.Parse(strings.Join(fields, ","))
	if none["t"] {
		s.Tokens = 0
	}
	if none["b"] {
		s.Batch = 0
	}
	return s, err
}
