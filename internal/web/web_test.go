package web

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that is silent before or within an answer, that sends too much, or sends on with a token is bounded.
func TestHostile(t *testing.T) {
	tokens := make(chan string, 9)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { tokens <- q.Header.Get("Authorization") }))
	defer other.Close()
	hold := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/mute":
			<-hold
		case "/stops":
			fmt.Fprint(w, "half")
			w.(http.Flusher).Flush()
			<-hold
		case "/round":
			http.Redirect(w, q, "/round", http.StatusFound)
		case "/away":
			http.Redirect(w, q, other.URL, http.StatusFound)
		default:
			fmt.Fprint(w, strings.Repeat("a", 1000))
		}
	}))
	defer s.Close()
	defer close(hold)
	c := New(Limits{Headers: 200 * time.Millisecond, Silence: 200 * time.Millisecond})
	get := func(path string) (*http.Response, error) {
		q, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
		require.NoError(t, err)
		q.Header.Set("Authorization", "Bearer secret")
		return c.Do(q)
	}
	_, err := get("/mute")
	var late net.Error
	require.ErrorAs(t, err, &late)
	require.True(t, late.Timeout())
	a, err := get("/stops")
	require.NoError(t, err)
	text, err := io.ReadAll(a.Body)
	var silent *SilentError
	require.ErrorAs(t, err, &silent)
	require.Equal(t, "half", string(text))
	_, err = get("/round")
	require.ErrorContains(t, err, "it sends on more than 5 times")
	a, err = get("/away")
	require.NoError(t, err)
	a.Body.Close()
	require.Empty(t, <-tokens)
	a, err = get("/much")
	require.NoError(t, err)
	defer a.Body.Close()
	text, err = All(a.Body, 999)
	require.ErrorContains(t, err, "more than 999 bytes came")
	require.Len(t, text, 999)
	text, err = All(strings.NewReader("abc"), 3)
	require.NoError(t, err)
	require.Equal(t, "abc", string(text))
}
