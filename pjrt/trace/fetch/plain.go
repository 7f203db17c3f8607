package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/internal/remote"
	"github.com/gdngen/gdngen/internal/web"
)

// folder is a folder of this machine.
type folder struct{ dir string }

func (d *folder) list(ctx context.Context) (all []File, err error) {
	err = filepath.WalkDir(d.dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		info, err := os.Stat(p) // of a link's target
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		name, err := filepath.Rel(d.dir, p)
		all = append(all, File{Name: filepath.ToSlash(name), Size: info.Size()})
		return err
	})
	return all, err
}

func (d *folder) get(_ context.Context, f File, to string) error {
	return copyFile(filepath.Join(d.dir, filepath.FromSlash(f.Name)), to)
}

// website is one file of a web server.
type website struct{ address string }

func newWeb(text string) (source, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, &SourceError{text, "no address of a file"}
	}
	if name := path.Base(u.Path); name == "/" || name == "." {
		return nil, &SourceError{text, "it names no file"}
	}
	return &website{text}, nil
}

func (w *website) list(ctx context.Context) ([]File, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodHead, w.address, nil)
	if err != nil {
		return nil, err
	}
	a, err := client.Do(q)
	if err != nil {
		return nil, &remote.UnreachableError{Host: q.URL.Host, Err: err}
	}
	a.Body.Close()
	size := a.ContentLength
	if a.StatusCode == http.StatusMethodNotAllowed {
		size = -1 // known on download
	} else if err := responseError(a); err != nil {
		return nil, err
	}
	return []File{{Name: path.Base(q.URL.Path), Size: size}}, nil
}

func (w *website) get(ctx context.Context, f File, to string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, w.address, nil)
	if err != nil {
		return err
	}
	a, err := do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	return save(a.Body, f.Size, to)
}

// client is used by all sources.
var client = web.New(web.Limits{})

// do sends a request. An answer other than OK is an error.
func do(q *http.Request) (*http.Response, error) {
	a, err := client.Do(q)
	if err != nil {
		return nil, &remote.UnreachableError{Host: q.URL.Host, Err: err}
	}
	if err := responseError(a); err != nil {
		a.Body.Close()
		return nil, err
	}
	return a, nil
}

// mostFile is the largest file of unknown size, in bytes.
const mostFile = 64 << 30

// save writes a body of at most size bytes; negative: unknown.
func save(body io.Reader, size int64, to string) error {
	if size < 0 {
		size = mostFile
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, web.Bound(body, size))
	if silent := (*web.SilentError)(nil); errors.As(err, &silent) {
		err = &remote.UnreachableError{Host: "the server", Err: err}
	}
	return errors.Join(err, f.Close())
}

// bucket is a Google Cloud bucket.
type bucket struct{ address string }

func (b *bucket) list(ctx context.Context) (all []File, err error) {
	out, err := gcloud(ctx, "storage", "ls", "--recursive", "--json", b.address)
	if err != nil {
		return nil, err
	}
	var objects []struct {
		URL      string
		Type     string
		Metadata struct{ Size string }
	}
	if err := json.Unmarshal(out, &objects); err != nil {
		return nil, fmt.Errorf("gcloud lists in a form that is not known: %w", err)
	}
	for _, o := range objects {
		address, _, _ := strings.Cut(o.URL, "#") // the part after # is its generation
		name, ok := strings.CutPrefix(address, b.address+"/")
		if !ok {
			name = path.Base(address)
		}
		size, err := strconv.ParseInt(o.Metadata.Size, 10, 64)
		if err != nil {
			size = -1
		}
		if !strings.HasSuffix(address, "/") && (o.Type == "" || strings.Contains(o.Type, "object")) {
			all = append(all, File{Name: name, Size: size, full: address})
		}
	}
	return all, nil
}

func (b *bucket) get(ctx context.Context, f File, to string) error {
	_, err := gcloud(ctx, "storage", "cp", f.full, to)
	return err
}

func gcloud(ctx context.Context, words ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, "gcloud", words...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("gcloud %s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("gcloud is not installed, and gs:// is read by it")
	}
	return out, err
}
