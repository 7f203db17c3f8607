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

	"github.com/gdngen/gdngen/internal/web"
)

// repository is a repository of Hugging Face.
type repository struct {
	id, revision, prefix string
	kind                 string // models or datasets
	endpoint             string
	commit               string // of the revision, when listed
}

var repositoryForm = regexp.MustCompile(`^([^/@\s]+/[^/@\s]+)(?:@([^/\s]+))?(?:/(.*))?$`)

func newHub(text, rest string, dataset bool) (source, error) {
	m := repositoryForm.FindStringSubmatch(rest)
	if m == nil {
		return nil, &SourceError{text, "want ORG/REPO[@REVISION][/PREFIX] after the colon"}
	}
	r := &repository{id: m[1], revision: m[2], prefix: strings.Trim(m[3], "/"), kind: "models", endpoint: "https://huggingface.co"}
	if r.revision == "" {
		r.revision = "main"
	}
	if dataset {
		r.kind = "datasets"
	}
	if e := os.Getenv("HF_ENDPOINT"); e != "" {
		r.endpoint = strings.TrimSuffix(e, "/")
	}
	return r, nil
}

// ask sends a request with the user's token.
func (r *repository) ask(ctx context.Context, address string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if token := os.Getenv("HF_TOKEN"); token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	return do(q)
}

// mostList is the largest answer to a list request in bytes, mostPages the most pages of a list.
const (
	mostList  = 64 << 20
	mostPages = 1000
)

// read decodes a JSON answer, and returns its header.
func (r *repository) read(ctx context.Context, address string, to any) (http.Header, error) {
	a, err := r.ask(ctx, address)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	text, err := web.All(a.Body, mostList)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	return a.Header, err
}

var hexForm = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// list lists the tree of the repository, page by page.
func (r *repository) list(ctx context.Context) ([]File, error) {
	var all []File
	var at struct{ SHA string }
	if _, err := r.read(ctx, fmt.Sprintf("%s/api/%s/%s/revision/%s", r.endpoint, r.kind, r.id, url.PathEscape(r.revision)), &at); err != nil {
		return nil, err
	}
	if !hexForm.MatchString(at.SHA) {
		return nil, fmt.Errorf("it names commit %.80q, which is none", at.SHA)
	}
	r.commit = at.SHA
	next := fmt.Sprintf("%s/api/%s/%s/tree/%s?recursive=true", r.endpoint, r.kind, r.id, url.PathEscape(r.revision))
	for n := 0; next != ""; n++ {
		if n == mostPages {
			return nil, fmt.Errorf("its list has more than %d pages", mostPages)
		}
		var page []struct {
			Type, Path, Oid string
			Size            int64
			LFS             *struct{ Oid string }
		}
		header, err := r.read(ctx, next, &page)
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
			if hash := f.SHA256 + f.git; !hexForm.MatchString(hash) || f.Size < 0 {
				return nil, fmt.Errorf("it lists %.80q with hash %.80q and %d bytes", x.Path, hash, f.Size)
			}
			all = append(all, f)
		}
		if next, err = following(next, header.Get("Link")); err != nil {
			return nil, err
		}
	}
	return all, nil
}

var nextLink = regexp.MustCompile(`<([^>]+)>;\s*rel="next"`)

// following returns the address of the next page; "" after the last. The token is sent only to the same host.
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

// responseError returns an error for an answer other than OK.
func responseError(a *http.Response) error {
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

// get downloads a file of the listed commit.
func (r *repository) get(ctx context.Context, f File, to string) error {
	words := strings.Split(f.full, "/")
	for i, w := range words {
		words[i] = url.PathEscape(w)
	}
	a, err := r.ask(ctx, fmt.Sprintf("%s/%s%s/resolve/%s/%s", r.endpoint, map[string]string{"datasets": "datasets/"}[r.kind], r.id, r.commit, strings.Join(words, "/")))
	if err != nil {
		return err
	}
	defer a.Body.Close()
	return save(a.Body, f.Size, to)
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
