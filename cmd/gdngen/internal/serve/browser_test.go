//go:build browser

package serve

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/internal/browser"
	"github.com/stretchr/testify/require"
)

// TestBrowser looks at the page in a headless Chromium. The tag keeps it out of go test ./...; .ci/run has it where there is one.
func TestBrowser(t *testing.T) {
	run := begin(t)
	run.judge(500, "algo=chunk")
	run.judge(300, "algo=chunk,leaf=8")
	s, err := New(run.dir, "127.0.0.1")
	require.NoError(t, err)
	h := httptest.NewServer(s)
	defer h.Close()
	page := browser.DOM(t, h.URL+"/")
	for _, want := range []string{`class="light live"`, "<td class=\"n\">4.69</td>", "takes 25.00 % less: use it", `class="level"`, "<td>far</td>", "2 of 2"} {
		require.Contains(t, page, want)
	}
	require.Less(t, strings.Index(page, ">4.69<"), strings.Index(page, ">7.81<"), "the cheaper one is first")
}
