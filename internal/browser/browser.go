//go:build browser

// Package browser shows pages to a headless Chromium, for tests.
package browser

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// DOM loads a page by its URL in the Chromium that GDNGEN_BROWSER names, runs its scripts for three seconds, and returns the document as HTML.
// Pages of files may read other files. The test fails if there is no browser, or if it takes a minute.
func DOM(t *testing.T, url string) string {
	t.Helper()
	browser := os.Getenv("GDNGEN_BROWSER")
	require.NotEmpty(t, browser, "GDNGEN_BROWSER names no Chromium")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out, err := exec.CommandContext(ctx, browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
		"--user-data-dir="+t.TempDir(), "--virtual-time-budget=3000", "--dump-dom", url).Output()
	require.NoError(t, err)
	return string(out)
}
