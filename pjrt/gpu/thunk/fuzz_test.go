package thunk

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzThunk reads any text as a dump of thunks, and of HLO. Seeds are the beginnings of stored ones.
func FuzzThunk(f *testing.F) {
	l, _ := filepath.Glob("testdata/*")
	for _, n := range l {
		d, err := os.ReadFile(n)
		if err == nil {
			f.Add(string(d[:min(len(d), 600)]))
		}
	}
	l, _ = filepath.Glob("testdata/*/*")
	for _, n := range l {
		d, err := os.ReadFile(n)
		if err == nil {
			f.Add(string(d[:min(len(d), 600)]))
		}
	}
	f.Fuzz(func(t *testing.T, a string) {
		p := &Program{}
		var err error
		p.Thunks, err = parseThunks(a)
		m, err2 := parseHLO(a)
		if err == nil && err2 == nil {
			p.join(m, map[int]string{})
		} else if err2 == nil {
			p.join(m, map[int]string{})
			for _, c := range m.computations {
				for _, x := range c.list {
					m.traffic(x, c)
				}
			}
		}
	})
}
