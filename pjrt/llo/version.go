package llo

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/gdngen/gdngen/ir/target"
)

//go:embed *.go hlo/*.go
var sources embed.FS

// Version identifies the cost model: the hash of its own sources, tests aside, and of the facts of targets that it counts with. What one
// version said of a schedule another may say otherwise, so whatever is kept of a report is kept by its version.
var Version = sync.OnceValue(func() string {
	h := sha256.New()
	if err := fs.WalkDir(sources, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := sources.ReadFile(name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
		return err
	}); err != nil {
		panic(err) // the files are in the program
	}
	for _, t := range target.All() {
		fmt.Fprintf(h, "%s %d %d %d\n", t.CostFacts(), t.MostDelay, t.PushBF16, t.PushF32)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
})
