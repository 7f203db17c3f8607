//go:build browser

package explain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gdngen/gdngen/internal/browser"
	"github.com/stretchr/testify/require"
)

// TestBrowser looks at the page in a headless Chromium: a step of zoom shows half of the bundles, in the
// picture and its axis, and the page is as wide as a phone.
func TestBrowser(t *testing.T) {
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
	page := browser.DOM(t, "file://"+outer)
	all := int64(e.Report.Ops[0].Profile.Bundles)
	require.Contains(t, page, "bundles "+grouped((all+2)/4)+" to "+grouped((3*all+2)/4))
	require.Contains(t, page, "as wide as a phone: true")
}
