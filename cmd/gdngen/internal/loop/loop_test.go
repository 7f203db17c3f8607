//go:build linux

package loop

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gdngen/gdngen/internal/rotate"
)

// The test program is a keeper too, and a loop that kills itself at a step.
func TestMain(m *testing.M) {
	RunKeeperIfAsked()
	if text := os.Getenv(killedVariable); text != "" {
		killedAt(text)
	}
	os.Exit(m.Run())
}

func sh(t *testing.T, dir, text string) string {
	t.Helper()
	c := exec.Command("sh", "-ec", text)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@u", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@u")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s: %s", text, out)
	return string(out)
}

// bed is a repository of a user in the middle of work, and a loop on it whose figure is the content of the file cost.
func bed(t *testing.T, agent string) Config {
	t.Helper()
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	require.NoError(t, os.Mkdir(repo, 0o755))
	sh(t, repo, `git init -q -b main .; echo 100 > cost; echo 50 > size; echo one > programs; mkdir tests; echo 'test "$(cut -d. -f1 cost)" -ge 10' > tests/check.sh; echo '*.o' > .gitignore
		git add -A; git commit -qm base; echo "half-done work" > scratch.txt; echo 101 > cost; touch .git/hooks/reference-transaction; chmod +x .git/hooks/*`)
	c := Defaults()
	c.Dir, c.Repo, c.Iterations, c.MaxFailures, c.AgentRetries, c.CheckRetries = filepath.Join(dir, "run"), repo, 1, 0, 0, 0
	c.Protect, c.Sandbox, c.AgentTimeout, c.AgentIdle = []string{"tests", "*.lock"}, "none", 2*time.Minute, time.Minute
	c.Checks, c.Measure = []string{"sh tests/check.sh"}, "cat cost"
	c.Agent = agent
	return c
}

// user is what of the repository is the user's.
func user(t *testing.T, repo string) string {
	return sh(t, repo, "git status --porcelain; git stash list; git rev-parse HEAD; git symbolic-ref HEAD; cat cost scratch.txt tests/check.sh .git/config; find . -path ./.git -prune -o -type f -print | sort; ls .git/hooks | wc -l")
}

// plan has an agent write iteration.json.
const plan = `echo '{"hypothesis":"fewer launches","bottleneck":"launches","gain":"22%","risk":0.2,"shortlist":[{"change":"a","gain":0.2},{"change":"b"},"c"],"next":{"change":"b","gain":0.1,"risk":0.5,"command":"cat cost"}}' > iteration.json; `

// poison has an agent make the base slow where the judge would look, and leave code that makes the change fast there and in its own clone, for
// builds and checks that run it.
const poison = `d=../../judge; for r in base figures; do mkdir -p $d/$r/home $d/$r/tmp; for f in $d $d/$r $d/$r/home $d/$r/tmp; do echo 1000 > $f/figure; done; done 2>/dev/null
	echo 'for d in .. ../.. ../home ../tmp ../../base/home ../../base/tmp ../../figures ../../figures/home $HOME $TMPDIR; do mkdir -p $d && echo 1 > $d/figure; done; echo 1 > cost' > code.sh
	echo 99.99 > cost`

type misbehaviour struct {
	name, agent string
	verdict     Verdict
	reason      string // part of it
	change      func(*Config)
	alone       bool // in the sandbox it comes to nothing, and keeps
	boxed       bool // tried in the sandbox too
	onlyBoxed   bool // and there alone
}

// Each agent, and what becomes of it. None but the first leaves the branch anywhere else than at the base.
var agents = []misbehaviour{
	{name: "good", boxed: true, agent: plan + `echo 80 > cost; git commit -qam one; echo 78 > cost; git commit -qam two; echo note > NOTES; echo done`, verdict: Keep, reason: "from 100 to 78, 22 % less"},
	{name: "tiny", agent: `echo 99.99 > cost`, verdict: NotBetter, reason: "0.25 % is asked"},
	{name: "noisy", agent: `echo 90 > cost`, verdict: NotBetter, reason: "in 5 pairs", change: func(c *Config) {
		c.Repeat, c.Measure = 5, `n=$(cat ../n 2>/dev/null || echo 0); echo $((n+1)) > ../n; test $(cat cost) = 100 && echo 100 || case $n in 1) echo 130;; *) echo 90;; esac`
	}},
	{name: "edits a test", agent: `echo true > tests/check.sh; echo 1 > cost`, verdict: OutOfBounds, reason: "tests/check.sh, which is protected"},
	{name: "deletes a test", agent: `rm -r tests; echo 60 > cost`, verdict: OutOfBounds, reason: "tests/check.sh, which is protected"},
	{name: "changes the mode of a test", agent: `chmod +x tests/check.sh; echo 60 > cost`, verdict: OutOfBounds, reason: "tests/check.sh, which is protected"},
	{name: "makes a test a link", agent: `mv tests/check.sh check; ln -s ../check tests/check.sh; echo 60 > cost`, verdict: OutOfBounds, reason: "tests/check.sh"},
	{name: "adds a protected name", agent: `mkdir a; echo > a/x.lock; echo 60 > cost`, verdict: OutOfBounds, reason: "a/x.lock"},
	{name: "breaks a check", agent: `echo 5 > cost`, verdict: CheckFailed, reason: "sh tests/check.sh: ended with status 1"},
	{name: "does not build", agent: `echo broken > programs; echo 70 > cost`, verdict: BuildFailed, reason: "ended with status 1", change: func(c *Config) { c.Build = "grep one programs || grep two programs" }},
	{name: "nothing", agent: `echo "found no idea"`, verdict: NoChange},
	{name: "a plan alone", agent: plan, verdict: NoChange},
	{name: "no programs", agent: `echo 70 > cost`, verdict: NoEffect, reason: "prints the same", change: func(c *Config) { c.Effect = "cat programs; pwd" }},
	{name: "programs", agent: `echo 70 > cost; echo two > programs`, verdict: Keep, change: func(c *Config) { c.Effect = "cat programs" }},
	{name: "no figure", agent: `echo nan > cost`, verdict: NoFigure, reason: `its last line is "nan"`, change: func(c *Config) { c.Checks = nil }},
	{name: "a negative figure", agent: `echo -5 > cost`, verdict: NoFigure, reason: "a positive number", change: func(c *Config) { c.Checks = nil }},
	{name: "regression", agent: `echo 70 > cost; echo 60 > size`, verdict: Regression, reason: "cat size rose by 20 %", change: func(c *Config) { c.Guards = []Guard{{"cat size", .02}} }},
	{name: "scaffold", agent: `echo '{"hypothesis":"a place for it","scaffold":"what the next step needs"}' > iteration.json; echo x > new`, verdict: Scaffold, reason: "what the next step needs", change: func(c *Config) { c.AllowScaffold = 1 }},
	{name: "a scaffold too many", agent: `echo '{"scaffold":"what the next step needs"}' > iteration.json; echo x > new`, verdict: NotBetter},
	{name: "blocked", agent: `echo '{"blocked":{"command":"make x","text":"no compiler"}}' > iteration.json`, verdict: Blocked, reason: "no compiler"},
	{name: "garbage as a plan", agent: `head -c 300 /dev/urandom > iteration.json; echo 70 > cost`, verdict: Keep},
	{name: "a link as a plan", agent: `ln -s /etc/passwd iteration.json; echo 70 > cost`, verdict: Keep},
	{name: "silent", boxed: true, agent: `echo 70 > cost; sleep 1000 & sleep 1000`, verdict: AgentFailed, reason: "silent for 500ms", change: func(c *Config) { c.AgentIdle = 500 * time.Millisecond }},
	{name: "late", boxed: true, agent: `while true; do echo still; sleep .1; done`, verdict: AgentFailed, reason: "not done within 700ms", change: func(c *Config) { c.AgentTimeout = 700 * time.Millisecond }},
	{name: "fails", boxed: true, agent: `echo 70 > cost; echo out of credit; exit 3`, verdict: AgentFailed, reason: "ended with status 3; its last words: out of credit"},
	{name: "kills itself", boxed: true, agent: `kill -9 $$; exit 9`, verdict: AgentFailed},
	{name: "plants a hook", agent: `mkdir -p .git/hooks; printf '#!/bin/sh\ntouch $MARK\n' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout; git config core.hooksPath .git/hooks; echo 77 > cost`, verdict: Keep},
	{name: "names programs in git's configuration", agent: `printf '#!/bin/sh\ntouch '$MARK'\n' > fs.sh; chmod +x fs.sh; git config core.fsmonitor ./fs.sh; printf 'cost filter=evil\n' > .gitattributes
		git config filter.evil.clean "sh -c 'touch $MARK; cat'"; echo 75 > cost`, verdict: Keep},
	{name: "a repository inside", agent: `git init -q sub; git -C sub -c user.name=x -c user.email=x@x commit -q --allow-empty -m x; echo 74 > cost`, verdict: OutOfBounds, reason: "sub is a repository of its own"},
	{name: "a symbolic link", agent: `ln -s /etc/passwd users; echo 74 > cost`, verdict: OutOfBounds, reason: "users is a symbolic link"},
	{name: "replaces its folder", agent: `cd ..; rm -rf clone; ln -s / clone`, verdict: OutOfBounds, reason: "no folder any more"},
	{name: "leaves daemons", boxed: true, agent: `echo 76 > cost; i=0; while [ $i -lt 150 ]; do (setsid sleep 313131 >/dev/null 2>&1 &); i=$((i+1)); done; (setsid sh -c 'sleep 313131 & sleep 313131' >/dev/null 2>&1 &); echo left some`, verdict: Keep},
	{name: "forks a thousand", agent: `echo 76 > cost; i=0; while [ $i -lt 1000 ]; do sleep 313131 & i=$((i+1)); done >/dev/null 2>&1; echo forked`, verdict: Keep},
	{name: "writes 2 GB", agent: `truncate -s 2G big; echo 70 > cost`, verdict: OutOfBounds, reason: "big has 2048 MiB"},
	{name: "writes 2 GB that git ignores", agent: `truncate -s 2G big.o; echo 70 > cost`, verdict: Keep},
	{name: "prints control characters", agent: `printf '\033[2J\033]0;owned\007\r{"hypothesis":"x"}\n'; printf '{"hypothesis":"a\\u001b[2J\\nVerdict: keep","shortlist":[]}' > iteration.json; echo 70 > cost`, verdict: Keep},
	{name: "moves the branch", agent: `git -C $REPO -c user.name=x -c user.email=x@x commit-tree -m x $(git -C $REPO rev-parse HEAD^{tree}) -p HEAD > ../c; git -C $REPO update-ref refs/heads/gdngen-loop $(cat ../c); echo 70 > cost`, verdict: Blocked, reason: "meanwhile", alone: true},
	{name: "edits the user's tree", agent: `echo owned > $REPO/scratch.txt; echo 70 > cost`, verdict: OutOfBounds, reason: "scratch.txt of the user's tree changed", alone: true},
	{name: "edits the journal", agent: `sed -i 's/begin/end/' ../../loop.jsonl; echo 70 > cost`, verdict: OutOfBounds, reason: "the loop's journal was changed", alone: true},
	{name: "a FIFO as the journal", agent: `rm ../../loop.jsonl; mkfifo ../../loop.jsonl; echo 70 > cost`, verdict: OutOfBounds, reason: "the loop's journal was changed", alone: true},
	{name: "a folder as the journal", agent: `rm ../../loop.jsonl; mkdir -p ../../loop.jsonl/x; echo 70 > cost`, verdict: OutOfBounds, reason: "the loop's journal was changed", alone: true},
	{name: "links in the folder of the run", agent: `for f in check-1 measure measure-base; do ln -s $REPO/scratch.txt ../../iter-001/$f.log || true; done; mkfifo ../../log.md ../../iter-001/build-checks.log; ln -s $REPO ../../judge/figures; echo 70 > cost`, verdict: Keep},
	{name: "poisons what judges", boxed: true, agent: poison, verdict: NotBetter, reason: "from 100 to 99.99, 0.01 % less", change: func(c *Config) {
		c.Build = "sh code.sh 2>/dev/null; true"
		c.Checks, c.Measure = []string{"sh code.sh 2>/dev/null; true"}, "cat ../figure ../home/figure $HOME/figure $TMPDIR/figure cost 2>/dev/null | head -1"
	}},
	{name: "makes its clone a link to the user's tree", boxed: true, agent: `echo 'cd ..; rm -rf clone; ln -s '$REPO' clone' > code.sh; echo 70 > cost`, verdict: BuildFailed, reason: "no folder any more", change: func(c *Config) {
		c.Build = "test ! -e code.sh || sh code.sh"
	}},
	{name: "links a folder to the user's tree", boxed: true, agent: `echo 'rm -rf tests; ln -s '$REPO'/tests tests; rm cost; ln -s '$REPO'/scratch.txt cost' > code.sh; echo 70 > cost`, verdict: Keep, reason: "from 100 to 70", change: func(c *Config) {
		c.Build = "test ! -e code.sh || sh code.sh"
		c.Checks = nil
	}},
	{name: "leaves what can not be written", agent: `echo 70 > cost; mkdir -p $HOME/mod; touch $HOME/mod/x; chmod 555 $HOME/mod`, verdict: Keep},
	{name: "takes the lock", boxed: true, agent: `flock -n ../../lock true && test -e ../../loop.jsonl || echo 70 > cost`, verdict: Keep},
	{name: "a FIFO as a plan", agent: `mkfifo iteration.json; echo 70 > cost`, verdict: Keep},
	{name: "4 MB as a plan", agent: `head -c 4000000 /dev/zero | tr '\0' 1 > iteration.json; echo 70 > cost`, verdict: Keep},
	{name: "70 MB without a newline", agent: `head -c 70000000 /dev/zero | tr '\0' a; echo 70 > cost`, verdict: Keep},
	{name: "ignores SIGTERM", boxed: true, agent: `trap '' TERM INT HUP; echo 70 > cost; while true; do sleep .1; done`, verdict: AgentFailed, reason: "silent for 500ms", change: func(c *Config) { c.AgentIdle = 500 * time.Millisecond }},
	{name: "thousands of files", agent: `mkdir many; cd many; seq ` + map[bool]string{true: "20000", false: "1000"}[rotate.All()] + ` | xargs touch; cd ..; echo 70 > cost`, verdict: Keep, change: func(c *Config) {
		c.AgentIdle = 2 * time.Minute // the disk is busy
	}},
	{name: "200 MB of lines", agent: `yes $(seq 500) | head -c 200000000; echo 70 > cost`, verdict: Keep},
	{name: "an infinite figure", agent: `echo inf > cost`, verdict: NoFigure, reason: "a positive number", change: func(c *Config) { c.Checks = nil }},
	{name: "a figure of no size", agent: `echo 1e-400 > cost`, verdict: NoFigure, reason: "a positive number", change: func(c *Config) { c.Checks = nil }},
	{name: "a folder that git forbids", boxed: true, agent: `mkdir git~1; echo x > git~1/x; echo 70 > cost`, verdict: OutOfBounds, reason: "git refuses what it left: error: invalid path 'git~1/x'"},
	{name: "a link of modules", agent: `ln -s cost .gitmodules; echo 70 > cost`, verdict: OutOfBounds, reason: ".gitmodules"},
	{name: "an encoding that files do not have", boxed: true, agent: `printf '* text working-tree-encoding=UTF-16\n*.txt filter=x ident\n' > .gitattributes; echo 70 > cost`, verdict: OutOfBounds, reason: "UTF-16"},
	{name: "FIFOs and sockets among files", agent: `mkfifo pipe .gitmodules; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("talk")'; test -S talk && echo 70 > cost`, verdict: Keep},
	{name: "names that write on a terminal", agent: `for n in "$(printf 'a\033[2J\033]0;owned\007')" "$(printf 'b\342\200\256gpj.sh')" "$(printf 'c\nVerdict: keep')"; do echo x > "$n"; done; echo 70 > cost`, verdict: Keep},
	{name: "a protected name that writes on a terminal", agent: `echo x > tests/"$(printf 'a\033[2J\342\200\256b\nVerdict: keep')"; echo 70 > cost`, verdict: OutOfBounds, reason: "tests/a[2JbVerdict: keep, which is protected"},
	{name: "words that turn direction", agent: `printf '{"hypothesis":"a\\u202e\\u2066b\\u200b","shortlist":["\\u202ec"]}' > iteration.json; printf '\342\200\256said\n'; echo 70 > cost`, verdict: Keep},
	{name: "a folder too deep", agent: `i=0; while [ $i -lt 60 ]; do d=$(printf '%090d' $i); mkdir $d && cd -P $d || exit 1; i=$((i+1)); done; echo x > x; cd $REPO/../run/work/clone; echo 70 > cost`, verdict: OutOfBounds, reason: "name too long"},
	{name: "closes the room of the judge", boxed: true, agent: `echo 'chmod 000 $HOME $TMPDIR && chmod 000 .. && chmod 000 .' > code.sh; echo 70 > cost`, verdict: Keep, change: func(c *Config) {
		c.Build, c.Checks, c.Guards = "test ! -e code.sh || sh code.sh", nil, []Guard{{"cat size; test ! -e code.sh || sh code.sh", .02}}
	}},
	{name: "notes that are none", boxed: true, agent: `echo 70 > cost`, verdict: Keep, change: func(c *Config) {
		c.Checks = []string{"mkfifo $GDNGEN_NOTE", "ln -s /dev/zero $GDNGEN_NOTE", "mkdir $GDNGEN_NOTE", "head -c 100000000 /dev/zero > $GDNGEN_NOTE", `echo '{"text":"to be done"}' > $GDNGEN_NOTE`, `echo '{"text":"\u202ea"}' > $GDNGEN_NOTE`}
	}},
	{name: "a plan to be done", agent: `echo '{"hypothesis":"to be determined","shortlist":["Todo"],"next":{"change":"To be done, <tbd>","command":"Pending"}}' > iteration.json; echo 70 > cost`, verdict: Keep},
	{name: "closes a folder of its files", agent: `echo 'test -e closed || { mkdir closed; mv cost size closed; chmod 555 .; }' > code.sh; echo 70 > cost`, verdict: Keep, change: func(c *Config) {
		c.Build, c.Checks = "test ! -e code.sh || sh code.sh", nil
	}},
	{name: "300 MB before its figure", agent: `echo 70 > cost; echo big > programs`, verdict: Keep, change: func(c *Config) {
		c.Measure = "grep -q one programs || head -c 300000000 /dev/zero | tr '\\0' 7; echo; cat cost"
	}},
	{name: "undoes mounts", boxed: true, agent: `umount -l / /tmp $REPO; mount -o remount,rw / ; mount -o remount,bind,rw /; unshare -Urm sh -c 'umount -l /tmp; mount -o remount,bind,rw /; echo x > '$REPO'/scratch.txt'
		mount --bind / /mnt; echo x > $REPO/.git/hooks/x; echo 70 > cost; true`, verdict: Keep, onlyBoxed: true},
}

func one(t *testing.T, m misbehaviour, sandbox string) {
	c := bed(t, m.agent)
	c.Sandbox = sandbox
	mark := filepath.Join(filepath.Dir(c.Dir), "owned")
	for name, value := range map[string]string{"MARK": mark, "REPO": c.Repo} {
		c.Agent = name + "=" + value + "; export " + name + "; " + c.Agent
	}
	if m.change != nil {
		m.change(&c)
	}
	var said []string
	c.Note = func(text string) { said = append(said, text) }
	was := user(t, c.Repo)
	require.NoError(t, Run(t.Context(), c))

	records, err := ReadRecords(c.Dir)
	require.NoError(t, err)
	done := ends(records)
	require.Len(t, done, 1)
	r := done[0]
	verdict := m.verdict
	if m.alone && sandbox != "none" {
		verdict = Keep // what is outside is read-only
	}
	require.Equal(t, verdict, r.Verdict, "%s; %v", r.Reason, said)
	if verdict == m.verdict {
		require.Contains(t, r.Reason, m.reason)
	}
	if m.name == "edits the user's tree" && sandbox == "none" {
		sh(t, c.Repo, "echo 'half-done work' > scratch.txt") // without a sandbox it is seen, not hindered
	}
	require.Equal(t, was, user(t, c.Repo))
	require.NoFileExists(t, mark)
	require.NotContains(t, string(must(os.ReadFile(filepath.Join(c.Dir, LogName)))), "\x1b")
	require.NotContains(t, strings.Join(said, ""), "\x1b")
	for _, text := range []string{strings.Join(said, ""), string(must(os.ReadFile(filepath.Join(c.Dir, LogName)))), sh(t, c.Repo, "git log --format=%B gdngen-loop")} {
		require.NotContains(t, text, "\u202e")
		require.NotContains(t, text, "\nVerdict:")
	}
	faults, err := Lint(t.Context(), c)
	require.NoError(t, err)
	require.Empty(t, faults)
	tip := strings.TrimSpace(sh(t, c.Repo, "git rev-parse gdngen-loop"))
	switch {
	case meaning(r.Verdict).Moves:
		require.Equal(t, r.Commit, tip)
		require.Equal(t, "1", strings.TrimSpace(sh(t, c.Repo, "git rev-list --count main..gdngen-loop")), "one commit")
		require.NotContains(t, sh(t, c.Repo, "git ls-tree -r --name-only gdngen-loop"), PlanName)
	case m.name != "moves the branch":
		require.Equal(t, r.Base, tip)
	}
	if r.Commit != "" {
		require.Equal(t, r.Commit, strings.TrimSpace(sh(t, c.Repo, "git rev-parse "+Ref(c.Dir, 1))))
	}
	require.NoDirExists(t, filepath.Join(c.Dir, "work"))
	for _, name := range must(filepath.Glob(filepath.Join(c.Dir, "iter-001", "*.log"))) {
		if info := must(os.Lstat(name)); info.Mode().IsRegular() {
			require.Less(t, info.Size(), int64(maxLog+1000), name)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// What agents do, and what becomes of it, with and without a sandbox. Afterwards none of their processes is left.
func TestAgents(t *testing.T) {
	sandboxes := append([]string{"none"}, available(t)...)
	t.Run("all", func(t *testing.T) {
		for _, s := range sandboxes {
			for _, m := range rotate.Sample(660, agents, rotate.Short(len(agents))) {
				if s != "none" && !m.alone && !m.boxed || s == "none" && m.onlyBoxed {
					continue
				}
				t.Run(s+"/"+m.name, func(t *testing.T) {
					t.Parallel()
					one(t, m, s)
				})
			}
		}
	})
	require.Empty(t, running("313131"), "processes are left")
}

// available are the sandboxes that can be had here.
func available(t *testing.T) (l []string) {
	for _, name := range []string{"namespace", "bubblewrap"} {
		if _, _, err := newBox(name, box{Stage: t.TempDir(), Hidden: hidden("")}); err != nil {
			t.Log(err)
		} else {
			l = append(l, name)
		}
	}
	return l
}

// running are the processes with a word among their arguments.
func running(word string) (l []string) {
	for pid := range table() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if args := strings.Split(string(text), "\x00"); args[0] == "sleep" && len(args) > 1 && args[1] == word {
			l = append(l, fmt.Sprint(pid))
		}
	}
	return l
}

const killedVariable = "GDNGEN_TEST_LOOP_KILLED"

// killedAt runs the loop of a file until a step, and kills this process there. Of a step that comes several times it is the last.
func killedAt(text string) {
	file, step, _ := strings.Cut(text, " ")
	var c Config
	json.Unmarshal(must(os.ReadFile(file)), &c)
	c.Dir = filepath.Dir(file)
	c.Step = func(name string) {
		if name == step {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	if step == "during" {
		c.Note = func(string) { syscall.Kill(os.Getpid(), syscall.SIGKILL) } // the agent is at work, and has said something
	}
	if err := Run(contextOf(), c); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A loop that is killed at any step goes on by the same command, and ends with the same commits; nothing it started is left.
func TestKilled(t *testing.T) {
	steps := []string{"begin", "clone", "agent", "during", "capture", "checks", "figures", "decide", "keep", "log", "end"}
	for _, step := range rotate.Sample(661, steps, rotate.Short(len(steps))) {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			c := bed(t, plan+`n=$(($(cat cost) - 10)); echo working; (setsid sleep 414141 >/dev/null 2>&1 &); sleep .2; echo $n > cost`)
			require.NoError(t, os.MkdirAll(c.Dir, 0o755))
			require.NoError(t, c.save())
			was := user(t, c.Repo)
			x := exec.Command(must(os.Executable()))
			x.Env = append(os.Environ(), killedVariable+"="+filepath.Join(c.Dir, configName)+" "+step)
			out, err := x.CombinedOutput()
			require.ErrorContains(t, err, "killed", "%s", out)
			require.NoError(t, Run(t.Context(), c))
			require.Equal(t, was, user(t, c.Repo))
			require.Equal(t, "90\n", sh(t, c.Repo, "git show gdngen-loop:cost"))
			require.Equal(t, "1", strings.TrimSpace(sh(t, c.Repo, "git rev-list --count main..gdngen-loop")))
			records := must(ReadRecords(c.Dir))
			kept := 0
			for _, r := range ends(records) {
				if r.Verdict == Keep {
					kept++
				}
			}
			require.Equal(t, 1, kept)
			require.Empty(t, must(Lint(t.Context(), c)))
			require.NoError(t, Run(t.Context(), c), "a whole run has nothing left to do")
		})
	}
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return len(running("414141")) == 0 }, 5*time.Second, 20*time.Millisecond, "processes are left")
	})
}
