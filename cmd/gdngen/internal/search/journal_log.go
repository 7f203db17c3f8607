package search

import (
	"fmt"
	"io"
	"os"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop/logbook"
)

// lintLog checks a log in Markdown by the rules of logs.
func (a CLI) lintLog(file, repo string, fields []string, last bool) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return a.logFaults(file, logbook.Lint(logbook.Parse(string(text)), loop.Rules(a.Ctx, repo, fields, last)))
}

func (a CLI) logFaults(file string, faults []logbook.Fault) error {
	if faults == nil {
		faults = []logbook.Fault{}
	}
	err := app.Emit(a.App, map[string]any{"log": file, "faults": faults}, faults, func(w io.Writer) {
		for _, f := range faults {
			fmt.Fprintf(w, "%s: %v\n", file, f)
		}
		if len(faults) == 0 {
			fmt.Fprintf(w, "%s: nothing to complain of\n", file)
		}
	})
	if err == nil && len(faults) > 0 {
		err = app.Failed(app.ExitRegression, "lint: %d faults in %s", len(faults), file)
	}
	return err
}
