package fetch

import (
	"context"
	"io"
	"os"

	"github.com/gdngen/gdngen/internal/remote"
)

// job is the results folder of a job of gdngen remote, wherever it ran.
type job struct {
	place remote.Place
	id    string
}

// newJob finds a job that was submitted from this folder, or is on the place GDNGEN_ON.
func newJob(text, id string) (source, error) {
	place, _, err := remote.Records{Dir: remote.RecordsDir}.Find(id, os.Getenv(remote.OnEnv), os.Getenv(remote.OnEnv))
	if err != nil {
		return nil, &SourceError{text, err.Error()}
	}
	return &job{place, id}, nil
}

func (j *job) list(ctx context.Context) (l []File, err error) {
	files, err := j.place.Files(ctx, j.id)
	for _, f := range files {
		l = append(l, File{Name: f.Name, Size: f.Size, full: f.Name})
	}
	return l, err
}

func (j *job) get(ctx context.Context, f File, to string) error {
	in, err := j.place.Open(ctx, j.id, f.full)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
