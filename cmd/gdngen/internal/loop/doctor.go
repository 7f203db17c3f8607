package loop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// TryLimit is the time limit of an agent for a trivial prompt.
const TryLimit = time.Minute

const tryPrompt = "This is a trial. Change no file. Answer with the word ready, and end.\n"

// Try sends an agent a trivial prompt like a loop: in a folder and a home of its own, with the variables of env added.
// It returns the agent's last words, or an error that says why it can not be used.
func Try(ctx context.Context, agent string, env []string, limit time.Duration) (said string, err error) {
	if err := supported(); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "gdngen-agent-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"clone", "home", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return "", err
		}
	}
	log := filepath.Join(dir, "log")
	c := command{text: agent, dir: filepath.Join(dir, "clone"), stdin: tryPrompt, log: log, limit: limit, env: environment(env, filepath.Join(dir, "home"), filepath.Join(dir, "tmp"))}
	o, err := c.run(ctx)
	switch {
	case err != nil:
		return "", err
	case o.fault != "":
		return "", errors.New(strings.TrimSuffix(o.fault+"; its last words: "+clip(o.last, 200), "; its last words: "))
	case o.last == "":
		return "", errors.New("it ended without a word")
	}
	said = clip(o.last, 120)
	if o.left > 0 {
		said += fmt.Sprintf("; it left %d processes, which were ended", o.left)
	}
	return said, unexpectedFile(dir)
}

// unexpectedFile returns an error naming a file outside the agent's folders, its home and the log. Agents keep settings in their homes.
func unexpectedFile(dir string) error {
	return filepath.WalkDir(dir, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if err == nil && e.Name() == "home" {
				return filepath.SkipDir
			}
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err == nil && name != "log" {
			err = fmt.Errorf("it left %s, and was asked to change nothing", plain(name))
		}
		return err
	})
}
