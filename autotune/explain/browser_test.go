//go:build browser

package explain

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBrowser looks at the page in a headless Chromium, which GDNGEN_BROWSER names: a step of zoom shows half of the bundles, in the
// picture and its axis, and the page is as wide as a phone.
func TestBrowser(t *testing.T) {
	browser := os.Getenv("GDNGEN_BROWSER")
	require.NotEmpty(t, browser, "GDNGEN_BROWSER names no Chromium")
	e := tiny(t, PageColumns)
	file := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, (&Result{Module: e.module, Targets: []*Explanation{e}}).WritePage(file))
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	const after = `<script>document.querySelector('[data-zoom="2"]').click();</script></body>`
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(data), "</body>", after, 1)), 0o644))
	const frame = `<iframe width=420 height=900 src="page.html" onload="const page = this.contentDocument; document.body.textContent = page.querySelector('output').textContent + '; as wide as a phone: ' + (page.documentElement.scrollWidth <= 420)"></iframe>`
	outer := filepath.Join(filepath.Dir(file), "frame.html")
	require.NoError(t, os.WriteFile(outer, []byte(frame), 0o644))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out, err := exec.CommandContext(ctx, browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--user-data-dir="+t.TempDir(), "--virtual-time-budget=3000", "--dump-dom", "file://"+outer).Output()
	require.NoError(t, err)
	all := int64(e.Report.Ops[0].Profile.Bundles)
	require.Contains(t, string(out), "bundles "+grouped((all+2)/4)+" to "+grouped((3*all+2)/4))
	require.Contains(t, string(out), "as wide as a phone: true")
}
