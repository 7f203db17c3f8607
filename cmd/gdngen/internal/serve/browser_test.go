//go:build browser

package serve

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBrowser looks at the page in a headless Chromium. GDNGEN_BROWSER names it. The tag keeps it out of go test ./...; .ci/run has it where there is one.
func TestBrowser(t *testing.T) {
	browser := os.Getenv("GDNGEN_BROWSER")
	require.NotEmpty(t, browser, "GDNGEN_BROWSER names no Chromium")
	run := begin(t)
	run.judge(500, "algo=chunk")
	run.judge(300, "algo=chunk,leaf=8")
	s, err := New(run.dir, "127.0.0.1")
	require.NoError(t, err)
	h := httptest.NewServer(s)
	defer h.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out, err := exec.CommandContext(ctx, browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(), "--virtual-time-budget=3000", "--dump-dom", h.URL+"/").Output()
	require.NoError(t, err)
	page := string(out)
	for _, want := range []string{`class="light live"`, "<td class=\"n\">4.69</td>", "takes 25.00 % less: use it", `class="level"`, "<td>far</td>", "2 of 2"} {
		require.Contains(t, page, want)
	}
	require.Less(t, strings.Index(page, ">4.69<"), strings.Index(page, ">7.81<"), "the cheaper one is first")
}
