package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gomlx/go-huggingface/hub"
)

// repository is a repository of Hugging Face. The library downloads; sizes and hashes, which it does not have, come from the list of files.
type repository struct {
	id, revision, prefix string
	kind                 hub.RepoType
	repo                 *hub.Repo
	endpoint             string
}

var repositoryForm = regexp.MustCompile(`^([^/@\s]+/[^/@\s]+)(?:@([^/\s]+))?(?:/(.*))?$`)

func newHub(text, rest string, dataset bool) (source, error) {
	m := repositoryForm.FindStringSubmatch(rest)
	if m == nil {
		return nil, &SourceError{text, "want ORG/REPO[@REVISION][/PREFIX] after the colon"}
	}
	r := &repository{id: m[1], revision: m[2], prefix: strings.Trim(m[3], "/"), kind: hub.RepoTypeModel, endpoint: "https://huggingface.co"}
	if r.revision == "" {
		r.revision = "main"
	}
	if dataset {
		r.kind = hub.RepoTypeDataset
	}
	if e := os.Getenv("HF_ENDPOINT"); e != "" {
		r.endpoint = strings.TrimSuffix(e, "/")
	}
	r.repo = hub.New(r.id).WithType(r.kind).WithRevision(r.revision).WithEndpoint(r.endpoint).WithAuth(os.Getenv("HF_TOKEN")).WithProgressBar(false)
	r.repo.Verbosity = 0
	return r, nil
}

// list asks for the tree of the repository, page by page.
func (r *repository) list(ctx context.Context) ([]File, error) {
	var all []File
	next := fmt.Sprintf("%s/api/%s/%s/tree/%s?recursive=true", r.endpoint, r.kind, r.id, url.PathEscape(r.revision))
	for next != "" {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, next, nil)
		if err != nil {
			return nil, err
		}
		if token := os.Getenv("HF_TOKEN"); token != "" {
			q.Header.Set("Authorization", "Bearer "+token)
		}
		var page []struct {
			Type, Path, Oid string
			Size            int64
			LFS             *struct{ Oid string }
		}
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			return nil, err
		}
		err = said(answer)
		if err == nil {
			err = json.NewDecoder(answer.Body).Decode(&page)
		}
		answer.Body.Close()
		if err != nil {
			return nil, err
		}
		for _, x := range page {
			name, inside := x.Path, true
			if r.prefix != "" {
				if name, inside = strings.CutPrefix(x.Path, r.prefix+"/"); x.Path == r.prefix {
					name, inside = filepath.Base(x.Path), true
				}
			}
			if x.Type != "file" || !inside {
				continue
			}
			f := File{Name: name, Size: x.Size, full: x.Path, git: x.Oid}
			if x.LFS != nil {
				f.SHA256, f.git = x.LFS.Oid, ""
			}
			all = append(all, f)
		}
		if next, err = following(next, answer.Header.Get("Link")); err != nil {
			return nil, err
		}
	}
	return all, nil
}

var nextLink = regexp.MustCompile(`<([^>]+)>;\s*rel="next"`)

// following is the address of the next page; empty after the last. The token goes to the same host alone.
func following(here, header string) (string, error) {
	m := nextLink.FindStringSubmatch(header)
	if m == nil {
		return "", nil
	}
	from, err := url.Parse(here)
	if err != nil {
		return "", err
	}
	to, err := from.Parse(m[1])
	if err != nil {
		return "", err
	}
	if to.Host != from.Host || to.Scheme != from.Scheme {
		return "", fmt.Errorf("the list goes on at another host, %s", to.Host)
	}
	return to.String(), nil
}

// said is what a server answers in place of what was asked for.
func said(a *http.Response) error {
	switch a.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s says %s: it wants a token of someone who may read it, in HF_TOKEN", a.Request.URL.Host, a.Status)
	case http.StatusNotFound:
		return fmt.Errorf("%s says %s: there is no %s", a.Request.URL.Host, a.Status, a.Request.URL.Path)
	}
	return fmt.Errorf("%s says %s", a.Request.URL.Host, a.Status)
}

// get downloads into a folder of its own: the library takes what its cache has for whole, also after a connection was cut.
func (r *repository) get(ctx context.Context, f File, to string) error {
	dir, err := os.MkdirTemp(filepath.Dir(to), ".fetch-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	type result struct {
		path string
		err  error
	}
	done := make(chan result, 1)
	go func() { // the library can not be interrupted
		p, err := r.repo.WithCacheDir(dir).DownloadFile(f.full)
		done <- result{p, err}
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case x := <-done:
		if x.err != nil {
			return errors.New(strings.SplitN(x.err.Error(), "\n", 2)[0])
		}
		return copyFile(x.path, to)
	}
}

func copyFile(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}
