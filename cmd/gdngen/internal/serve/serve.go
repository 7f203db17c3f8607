// Package serve shows a run or a loop in a browser while it goes on. It only reads the journal. Its pages load nothing
// from other hosts: no script, style or font.
package serve

import (
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gdngen/gdngen/autotune/journal"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/loop"
)

//go:embed page.html page.js page.css
var files embed.FS

// policy lets a page load only its own script, style and data.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Server serves one folder. It is safe for concurrent use.
type Server struct {
	dir, host string
	mux       *http.ServeMux

	mu    sync.Mutex
	stamp string // of the journal that data was made from
	data  []byte
}

// New returns a server for the folder of a run or a loop. host is the name or address that it listens on. Requests for
// another host name are refused, so that pages of other sites can not read the data.
func New(dir, host string) (*Server, error) {
	s := &Server{dir: dir, host: host, mux: http.NewServeMux()}
	if _, err := s.read(); err != nil {
		return nil, err
	}
	for path, name := range map[string]string{"/{$}": "page.html", "/page.js": "page.js", "/page.css": "page.css"} {
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, name) })
	}
	s.mux.HandleFunc("GET /data.json", s.serveData)
	return s, nil
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	if !s.trusts(r.Host) {
		http.Error(w, "this page is served at "+s.host+" alone", http.StatusForbidden)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// trusts reports whether a request names this host: by an address, as localhost, or by its own name.
func (s *Server) trusts(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || host == s.host || net.ParseIP(host) != nil
}

// serveData sends the data of the run, or 304 if the page has them already.
func (s *Server) serveData(w http.ResponseWriter, r *http.Request) {
	data, err := s.read()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	tag := fmt.Sprintf(`"%x"`, sha256.Sum256(data))
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(data)
}

// read returns the data of the folder. It computes them again if the journal is longer or a driver has started or stopped.
func (s *Server) read() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	read := runData
	file := filepath.Join(s.dir, journal.FileName)
	at, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		file, read = filepath.Join(s.dir, loop.JournalName), loopData
		at, err = os.Stat(file)
	}
	if err != nil {
		return nil, &journal.NoRunError{Dir: s.dir}
	}
	stamp := fmt.Sprint(file, at.Size(), at.ModTime().Format(time.RFC3339Nano), journal.Driven(s.dir))
	if stamp == s.stamp {
		return s.data, nil
	}
	d, err := read(s.dir)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(d)
	if err == nil {
		s.stamp, s.data = stamp, data
	}
	return data, err
}
