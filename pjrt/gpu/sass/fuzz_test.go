package sass

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzSass reads any text as the assembly of a GPU. Seeds are the beginnings of stored ones.
func FuzzSass(f *testing.F) {
	l, _ := filepath.Glob("testdata/*")
	for _, n := range l {
		d, err := os.ReadFile(n)
		if err == nil {
			f.Add(string(d[:min(len(d), 600)]), "REG:10 STACK:0")
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		c, err := Parse(a, b)
		if err == nil {
			c.Instructions()
		}
	})
}
