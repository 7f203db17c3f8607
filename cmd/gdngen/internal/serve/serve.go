// Package serve shows a run or a loop in a browser while it goes on. It reads the journal alone and writes nothing. Its pages ask nobody
// else: no script, style or font comes from another host.
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

// policy lets a page load its own script, style and data, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Server answers for one folder. Its methods may be called from several goroutines.
type Server struct {
	dir, host string
	mux       *http.ServeMux

	mu    sync.Mutex
	stamp string // of the journal that data was made of
	data  []byte
}

// New is a server for the folder of a run or a loop. host is the name or address it listens at: a request that names another host, which is
// no address, is refused, so that no page of elsewhere reads this one.
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

// ServeHTTP answers one request.
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

// trusts says whether a request names this host: by an address, as localhost, or by the name that is listened at.
func (s *Server) trusts(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || host == s.host || net.ParseIP(host) != nil
}

// serveData sends the data of the run, or 304 where the page has them already.
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

// read gives the data of the folder, made anew where its journal has grown or its driver has come or gone.
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
