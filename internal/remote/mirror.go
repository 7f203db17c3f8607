package remote

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Mirror copies the results of a job as they grow, so that they survive the loss of its node.
type Mirror struct {
	Place Place
	ID    string
	Dir   string        // of the copies
	Every time.Duration // interval between rounds; 0: mirrorEvery
	Note  func(string)  // called for messages to the user; may be nil
}

const mirrorEvery = 30 * time.Second

// Keep copies repeatedly until ctx ends.
func (m *Mirror) Keep(ctx context.Context) {
	every := m.Every
	if every <= 0 {
		every = mirrorEvery
	}
	for said := false; ; {
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return
		}
		if _, err := m.Round(ctx, false); err != nil && ctx.Err() == nil && !said && m.Note != nil {
			m.Note(fmt.Sprintf("mirror: %v; it is tried again", err))
			said = true
		}
	}
}

// Round copies once. Unless all is set, it skips files whose copy has the same size, and copies of immutable
// files: the objects of a run, which are named by their content.
func (m *Mirror) Round(ctx context.Context, all bool) ([]Fetched, error) {
	return fetchSome(ctx, m.Place, m.ID, m.Dir, func(f File) bool {
		info, err := os.Stat(filepath.Join(m.Dir, filepath.FromSlash(f.Name)))
		return all || err != nil || info.Size() != f.Size && !slices.Contains(strings.Split(path.Dir(f.Name), "/"), "objects")
	})
}
