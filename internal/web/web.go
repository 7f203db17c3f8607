// Package web is the only client for other servers: the Hugging Face hub, a Ray cluster, FlashInfer-Bench, and files. It sets
// limits against servers that accept a connection and stay silent, send without end, or redirect a token elsewhere.
package web

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Limits of a client; a zero field takes the default.
type Limits struct {
	Connect time.Duration // to connect: 20 s
	Headers time.Duration // until an answer begins: 1 minute
	Silence time.Duration // between two pieces of an answer: 1 minute
}

// redirects is the largest number of redirects.
const redirects = 5

// New returns a client. Compressed answers are not unpacked, so that sizes count the bytes sent.
func New(l Limits) *http.Client {
	connect, silence := cmp.Or(l.Connect, 20*time.Second), cmp.Or(l.Silence, time.Minute)
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}).DialContext, TLSHandshakeTimeout: connect,
		ResponseHeaderTimeout: cmp.Or(l.Headers, time.Minute), MaxResponseHeaderBytes: 1 << 20, DisableCompression: true, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	return &http.Client{Transport: &bounded{t, silence}, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > redirects {
			return fmt.Errorf("it sends on more than %d times", redirects)
		}
		if first := via[0].URL; r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
			r.Header.Del("Authorization")
			r.Header.Del("Cookie")
		}
		if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
			return errors.New("it sends on to an address that is not https")
		}
		return nil
	}}
}

type bounded struct {
	http.RoundTripper
	silence time.Duration
}

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := b.RoundTripper.RoundTrip(r)
	if err == nil && a.Body != nil && a.StatusCode != http.StatusSwitchingProtocols {
		a.Body = &body{ReadCloser: a.Body, silence: b.silence}
	}
	return a, err
}

// SilentError says that a server stopped in the middle of an answer.
type SilentError struct{ After time.Duration }

func (e *SilentError) Error() string { return fmt.Sprintf("nothing came for %v", e.After) }

// body ends a silent answer with a *SilentError.
type body struct {
	io.ReadCloser
	silence time.Duration
	silent  atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	t := time.AfterFunc(b.silence, func() {
		b.silent.Store(true)
		b.Close()
	})
	n, err := b.ReadCloser.Read(p)
	t.Stop()
	if err != nil && err != io.EOF && b.silent.Load() {
		err = &SilentError{b.silence}
	}
	return n, err
}

// LargeError says that an answer is larger than Most bytes.
type LargeError struct{ Most int64 }

func (e *LargeError) Error() string { return fmt.Sprintf("more than %d bytes came", e.Most) }

// Bound reads at most most bytes; one more is a *LargeError.
func Bound(r io.Reader, most int64) io.Reader { return &bound{r, most, most} }

type bound struct {
	r          io.Reader
	left, most int64
}

func (b *bound) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &LargeError{b.most}
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, &LargeError{b.most}
	}
	return n, err
}

// All reads an answer of at most most bytes.
func All(r io.Reader, most int64) ([]byte, error) { return io.ReadAll(Bound(r, most)) }
