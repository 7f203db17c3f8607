package remote

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"github.com/gdngen/gdngen/internal/terminal"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// machinePlace runs jobs on one machine by ssh. A job is a folder there:
//
//	jobs/ID/run    the script
//	jobs/ID/env    variables, readable only by the owner
//	jobs/ID/work   its working folder, with the files sent along
//	jobs/ID/out    its results
//	jobs/ID/log    its output
//	jobs/ID/pid    its process group
//	jobs/ID/exit   its exit status, once it ended
//
// A job runs in its own session, so that a cut connection does not end it.
type machinePlace struct {
	text string
	ssh  *SSH
}

func openSSH(rest string) (Place, error) {
	if strings.HasPrefix(rest, "-") || strings.ContainsAny(rest, " \t") {
		return nil, badPlace("place ssh:%s: want ssh:[USER@]HOST", rest)
	}
	return &machinePlace{"ssh:" + rest, &SSH{Host: rest}}, nil
}

// jobsThere is the folder of jobs, as a shell expression.
const jobsThere = cacheThere + "/jobs"

func folderOf(id string) string { return jobsThere + "/" + id }

func (m *machinePlace) Submit(ctx context.Context, j *Job) error {
	bin := ""
	if !j.NoSync {
		program, err := m.ssh.Push(ctx)
		if err != nil {
			return err
		}
		bin = fmt.Sprintf("PATH=$(dirname %s):$PATH; export PATH\n", program)
	}
	run := "#!/bin/sh\ncd \"$(dirname \"$0\")/work\" || exit 1\n" + bin + "GDNGEN_OUT=$(cd ../out && pwd); export GDNGEN_OUT\n. ../env\n(\n" + j.line() +
		"\n)\necho $? > ../exit.new && mv ../exit.new ../exit\n"
	var env strings.Builder
	for _, name := range slices.Sorted(maps.Keys(j.Env)) {
		fmt.Fprintf(&env, "export %s=%s\n", name, Quote(j.Env[name]))
	}
	parcel, err := pack(map[string]string{"run": run, "env": env.String()}, j.Files)
	if err != nil {
		return err
	}
	job := folderOf(j.ID)
	// The upload is complete before the folder is made. Making the folder is the lock: of two submissions of the same id only one begins the job.
	_, err = m.ssh.Run(ctx, fmt.Sprintf(`set -e; umask 077; new=%[1]s.new.$$; mkdir -p "$new/work" "$new/out"; tar -xzf - -C "$new"; trap '' HUP
if test -d %[1]s || ! mv "$new" %[1]s 2>/dev/null || test -d %[1]s/"$(basename "$new")"; then rm -rf "$new" %[1]s/"$(basename "$new")"; exit 0; fi
cd %[1]s; if command -v setsid >/dev/null; then setsid sh "$PWD/run" >log 2>&1 </dev/null & else nohup sh "$PWD/run" >log 2>&1 </dev/null & fi
echo $! > pid`, job), parcel)
	return err
}

// pack returns a compressed archive of texts, of which env is readable only by the owner, and of files below work.
func pack(texts map[string]string, files []string) (io.Reader, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	add := func(name string, mode int64, content []byte) error {
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err := t.Write(content)
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if err := add(name, 0o600, []byte(texts[name])); err != nil {
			return nil, err
		}
	}
	all, err := luggage(files)
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		content, err := os.ReadFile(f.path)
		if err == nil {
			err = add("work/"+f.name, int64(f.mode), content)
		}
		if err != nil {
			return nil, err
		}
	}
	return &b, errors.Join(t.Close(), z.Close())
}

// stateScript prints the state of the job in the current folder, on one line.
const stateScript = `if test -f exit; then echo ended $(cat exit); elif test -f pid && kill -0 $(cat pid) 2>/dev/null; then echo running 0; elif test -f exit; then echo ended $(cat exit); elif test -f stopped; then echo stopped 0; else echo lost 0; fi`

// parseState parses the line of stateScript.
func parseState(line string) (*State, error) {
	word, number, _ := strings.Cut(strings.TrimSpace(line), " ")
	n, err := strconv.Atoi(number)
	s := &State{Exit: n}
	switch {
	case err != nil || n < 0:
	case word == "ended" && n == 0:
		s.Phase = Succeeded
	case word == "ended":
		s.Phase = Failed
	case word == "running" || word == "stopped" || word == "lost":
		s.Phase = Phase(word)
	}
	if s.Phase == "" {
		return nil, fmt.Errorf("the state of the job is %q, which is none", line)
	}
	return s, nil
}

// in runs a script in the folder of a job. A missing job is a *NoJobError.
func (m *machinePlace) in(ctx context.Context, id, script string) (string, error) {
	said, err := m.ssh.Run(ctx, fmt.Sprintf("cd %s 2>/dev/null || { echo none; exit 0; }; echo there; %s", folderOf(id), script), nil)
	if err != nil {
		return "", err
	}
	first, rest, _ := strings.Cut(said, "\n")
	switch first {
	case "there":
		return rest, nil
	case "none":
		return "", &NoJobError{m.text, id}
	}
	return "", &UnreachableError{m.text, fmt.Errorf("its shell prints %.80q before it answers: no start file of a shell may print where nobody reads", terminal.Plain(first))}
}

func (m *machinePlace) Status(ctx context.Context, id string) (*State, error) {
	said, err := m.in(ctx, id, stateScript)
	if err != nil {
		return nil, err
	}
	s, err := parseState(said)
	if err == nil {
		s.Node = m.ssh.Host
	}
	return s, err
}

func (m *machinePlace) Logs(ctx context.Context, id string, from int64, follow bool) (io.ReadCloser, error) {
	if _, err := m.in(ctx, id, ""); err != nil {
		return nil, err
	}
	if !follow {
		return m.ssh.stream(ctx, fmt.Sprintf("cd %s; tail -c +%d log", folderOf(id), from+1), sshSilence)
	}
	// The reader ends shortly after the job, or with its connection: later output goes to a closed pipe.
	return m.ssh.stream(ctx, fmt.Sprintf(`cd %s; tail -c +%d -f log & t=$!; trap 'kill $t' EXIT
while ! test -f exit && kill -0 $(cat pid) 2>/dev/null && kill -0 $t 2>/dev/null; do sleep .2; done; sleep .3`, folderOf(id), from+1), 0)
}

// stopTries is the number of checks, a fifth of a second apart, before a stopping job is killed.
const stopTries = 25

func (m *machinePlace) Stop(ctx context.Context, id string) error {
	_, err := m.in(ctx, id, fmt.Sprintf(`if ! test -f exit; then touch stopped; p=$(cat pid); kill -TERM -$p 2>/dev/null || kill -TERM $p 2>/dev/null
i=0; while kill -0 -$p 2>/dev/null && test $i -lt %d; do sleep .2; i=$((i+1)); done; kill -KILL -$p 2>/dev/null; fi; true`, stopTries))
	return err
}

func (m *machinePlace) Files(ctx context.Context, id string) (l []File, err error) {
	said, err := m.in(ctx, id, `cd out && find . -type f | while IFS= read -r f; do echo "$(wc -c < "$f") $f"; done`)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(said) {
		size, name, ok := strings.Cut(strings.TrimSpace(line), " ./")
		n, err := strconv.ParseInt(size, 10, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("%s lists %q as a file", m.text, line)
		}
		l = append(l, File{name, n})
	}
	return sorted(l), nil
}

func sorted(l []File) []File {
	slices.SortFunc(l, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return l
}

func (m *machinePlace) Open(ctx context.Context, id, name string) (io.ReadCloser, error) {
	if !local(name) {
		return nil, fmt.Errorf("%q is no file of a job", name)
	}
	return m.ssh.stream(ctx, fmt.Sprintf("cat %s/out/%s", folderOf(id), Quote(name)), sshSilence)
}

// local reports whether a name stays below its folder.
func local(name string) bool {
	return filepath.IsLocal(name) && path.Clean(name) == name && terminal.Plain(name) == name
}

func (m *machinePlace) List(ctx context.Context) (l []Listed, err error) {
	said, err := m.ssh.Run(ctx, fmt.Sprintf("cd %s 2>/dev/null || exit 0; for j in *; do test -f \"$j/run\" || continue; (cd \"$j\"; echo \"$j $(%s)\"); done", jobsThere, stateScript), nil)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(said) {
		id, rest, _ := strings.Cut(strings.TrimSpace(terminal.Lines(line)), " ")
		if CheckID(id) != nil {
			continue // not a job of gdngen
		}
		s, err := parseState(rest)
		if err != nil {
			return nil, err
		}
		l = append(l, Listed{id, *s})
	}
	return l, nil
}
