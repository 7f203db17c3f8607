package remote

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is auto is found where one is configured; where none or several are, the error says how to choose.
func TestAutoPlace(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv(OnEnv, "")
	write := func(name, text string) {
		path := filepath.Join(dir, "gdngen", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	_, _, err := Parse(Auto)
	require.ErrorIs(t, err, ErrPlace)
	require.ErrorContains(t, err, "no place is configured: give --on PLACE, set GDNGEN_ON")
	write(PlacesName, `{"big": "ssh:me@big"}`)
	_, full, err := Parse(Auto)
	require.NoError(t, err)
	require.Equal(t, "ssh:me@big", full)
	write(PlacesName, `{"big": "ssh:me@big", "small": "ssh:me@small"}`)
	_, _, err = Parse(Auto)
	require.ErrorContains(t, err, "one of big small")
	write("holds/mine.json", `{"name": "mine", "zone": "us-central1-b", "type": "v6e-8"}`)
	place, why, err := FindPlace()
	require.NoError(t, err)
	require.Equal(t, []string{"tpu:mine", "it is held"}, []string{place, why})
	t.Setenv(OnEnv, "ssh:other")
	place, _, err = FindPlace()
	require.NoError(t, err)
	require.Equal(t, "ssh:other", place)
}

// A Ray cluster says what its nodes have.
func TestAutoResource(t *testing.T) {
	nodes := `{"state": "ALIVE", "resources_total": {"CPU": 8, "TPU": 4}}, {"state": "DEAD", "resources_total": {"TPU": 16}}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		require.Equal(t, "/api/v0/nodes", q.URL.Path)
		fmt.Fprintf(w, `{"result": true, "data": {"result": {"total": 2, "result": [%s]}}}`, nodes)
	}))
	defer s.Close()
	p, full, err := Parse("ray:" + s.URL)
	require.NoError(t, err)
	j := &Job{Place: full}
	require.NoError(t, j.Reserve(t.Context(), p))
	require.Equal(t, map[string]float64{"TPU": 4}, j.Resources)
	nodes = `{"state": "ALIVE", "resources_total": {"CPU": 8}}`
	require.ErrorContains(t, j.Reserve(t.Context(), p), "no node of "+full+" that is alive has a TPU or a GPU")
	p, _, err = Parse("ssh:me@big")
	require.NoError(t, err)
	require.NoError(t, j.Reserve(t.Context(), p), "where nobody counts there is nothing to reserve")
}
