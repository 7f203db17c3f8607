package loop

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Config is the configuration of a loop. A run stores it in its folder, so that the folder is enough to resume it.
type Config struct {
	Dir        string        `json:"-"`          // folder of the run
	Repo       string        `json:"repo"`       // the user's repository; only refs are written
	Branch     string        `json:"branch"`     // moved by keeps; created at HEAD if missing
	Agent      string        `json:"agent"`      // shell command; the prompt is its standard input
	Iterations int           `json:"iterations"` // of the whole run, without interrupted ones
	Budget     time.Duration `json:"budget"`     // of a session; no iteration begins after it; 0: no limit

	Prompt     string      `json:"prompt,omitempty"` // template; empty: DefaultPrompt
	Directives []Directive `json:"directives,omitempty"`
	Objective  string      `json:"objective,omitempty"`
	Bound      string      `json:"bound,omitempty"`      // lower bound of the figure, in words
	Kernels    []string    `json:"kernels,omitempty"`    // files and folders of the code to improve
	References []string    `json:"references,omitempty"` // to read before the work
	Goal       float64     `json:"goal,omitempty"`       // the loop ends at a figure of at most this (--end-at); 0: none
	GoalMFU    float64     `json:"goal_mfu,omitempty"`   // the loop ends at this model flop utilisation, noted by a judge's command; 0: none

	Build        string        `json:"build,omitempty"` // command run first in the judge's clones
	Checks       []string      `json:"checks,omitempty"`
	CheckRetries int           `json:"check_retries"`
	CheckTimeout time.Duration `json:"check_timeout"` // of one check, build or figure
	Measure      string        `json:"measure"`       // command whose last line is the figure; less is better
	Repeat       int           `json:"repeat"`        // interleaved pairs of base and change
	Guards       []Guard       `json:"guards,omitempty"`
	Effect       string        `json:"effect,omitempty"`    // command whose output every change must change
	HotSpots     string        `json:"hot_spots,omitempty"` // command that prints the hot spots, one a line, for the prompt

	MinGain       float64 `json:"min_gain"`       // least gain of a keep, as a share
	MinExpected   float64 `json:"min_expected"`   // least gain that a plan must expect, as a share
	MaxRegression float64 `json:"max_regression"` // share that a scaffold may lose
	EscalateBelow float64 `json:"escalate_below"` // a keep with a smaller gain counts towards escalation
	AllowScaffold int     `json:"allow_scaffold"` // consecutive scaffolds

	Protect []string `json:"protect"`           // files, folders and patterns that may not change
	Allow   []string `json:"allow,omitempty"`   // exceptions
	Holdout string   `json:"holdout,omitempty"` // a file for the checks, hidden from the agent
	MaxFile int64    `json:"max_file"`          // bytes

	AgentTimeout time.Duration `json:"agent_timeout"`
	AgentIdle    time.Duration `json:"agent_idle"` // longest silence
	AgentRetries int           `json:"agent_retries"`
	MaxFailures  int           `json:"max_failures"` // consecutive, in a session; 0 or less: no limit
	Resilient    bool          `json:"resilient"`    // retry after failures of the machinery

	MaxDisk  int64   `json:"max_disk,omitempty"`  // bytes of the run's folder on disk; 0: no limit
	Spend    string  `json:"spend,omitempty"`     // command whose last line is the agents' spending so far
	MaxSpend float64 `json:"max_spend,omitempty"` // spending at which the loop pauses; 0: no limit

	IncludeDirty bool `json:"include_dirty,omitempty"` // agents see the user's uncommitted changes; the branch does not get them

	Sandbox      string   `json:"sandbox"`                 // one of Sandboxes
	Show         []string `json:"show,omitempty"`          // files and folders of homes, /tmp and /run that agents and checks may read
	AgentNetwork bool     `json:"agent_network,omitempty"` // agents reach the network
	CheckNetwork bool     `json:"check_network,omitempty"` // so do checks; always with On
	Unwatched    bool     `json:"unattended,omitempty"`    // warnings are not read: a missing sandbox is an error, unless Sandbox is none

	Env      []string `json:"env,omitempty"` // names of further variables for agents and checks
	On       string   `json:"on,omitempty"`  // place of gdngen remote, for the agent and the checks
	SyncBase string   `json:"sync_base"`     // one of Syncs

	ShowFileUpdates bool              `json:"-"`
	Judge           string            `json:"-"` // program that is called gdngen for agents and checks; empty: none
	JudgeEnv        []string          `json:"-"` // for the checks: paths of plugins, for example
	Readable        []string          `json:"-"` // shown to agents and checks besides Show, such as the folder of plugins
	Note            func(string)      `json:"-"`
	Warn            func(string)      `json:"-"`
	Ended           func(Record)      `json:"-"` // called after each iteration
	Step            func(name string) `json:"-"` // called before each step, for tests
}

// Elsewhere returns a check whose --on names another place than the loop's; "" if there is none.
func (c *Config) Elsewhere() string {
	for _, check := range append(slices.Clone(c.Checks), c.Measure) {
		for _, m := range onFlag.FindAllStringSubmatch(check, -1) {
			if strings.Trim(m[1], `"'`) != c.On {
				return check
			}
		}
	}
	return ""
}

var onFlag = regexp.MustCompile(`--on[= ]("[^"]*"|'[^']*'|\S+)`)

// Guard is a figure that may rise at most by a share.
type Guard struct {
	Command string  `json:"command"`
	Share   float64 `json:"share"`
}

// ParseGuard parses COMMAND=SHARE.
func ParseGuard(text string) (g Guard, err error) {
	i := strings.LastIndexByte(text, '=')
	if i < 1 {
		return g, fmt.Errorf("%q: want COMMAND=SHARE, such as 'sh size.sh=1%%'", text)
	}
	g.Command = text[:i]
	g.Share, err = ParseShare(text[i+1:])
	return g, err
}

// Syncs are the values of Config.SyncBase.
var Syncs = []string{"off", "once", "each"}

// DefaultProtect lists the files that judge a change of gdngen itself: references and inputs, accuracy tests, gates, costs, the ladder and the loop.
var DefaultProtect = []string{"tests", "gdn/truth", "gdn/exam", "autotune/judge", "autotune/guards.go", "autotune/text_score.go", "autotune/journal", "autotune/ladder", "autotune/measure", "cmd/gdngen/internal/loop", "ir/target", "pjrt/llo", "pjrt/machine", "go.mod", "go.sum", ".ci", ".github"}

// Defaults returns a configuration that lacks only folder, agent and measure.
func Defaults() Config {
	return Config{Repo: ".", Branch: "gdngen-loop", Iterations: 10, CheckRetries: 1, CheckTimeout: 30 * time.Minute, Repeat: 1, MinGain: .0025, MinExpected: .1, MaxRegression: .01, EscalateBelow: .03,
		Protect: slices.Clone(DefaultProtect), MaxFile: 32 << 20, AgentTimeout: 2 * time.Hour, AgentIdle: 15 * time.Minute, AgentRetries: 1, MaxFailures: 3, Sandbox: "auto", SyncBase: "off"}
}

// Unattended changes a configuration to run unattended: no failure ends the loop, and all failures are retried.
func (c *Config) Unattended() {
	c.Resilient, c.MaxFailures, c.AgentRetries, c.CheckRetries = true, 0, max(2, c.AgentRetries), max(2, c.CheckRetries)
}

// Validate returns why a configuration is invalid, or nil, and makes its paths absolute.
func (c *Config) Validate() (err error) {
	switch {
	case c.Dir == "":
		return errors.New("a loop needs --run DIR")
	case strings.TrimSpace(c.Agent) == "":
		return errors.New("a loop needs --agent COMMAND")
	case strings.TrimSpace(c.Measure) == "":
		return errors.New("a loop needs --measure COMMAND, whose last line is the figure")
	case c.Iterations < 1:
		return errors.New("--iterations: want at least 1")
	case c.Repeat < 1:
		return errors.New("--repeat: want at least 1")
	case c.AgentTimeout <= 0 || c.AgentIdle <= 0 || c.CheckTimeout <= 0:
		return errors.New("--agent-timeout, --agent-idle and --check-timeout: want more than 0")
	case c.MinGain >= 1 || !(c.Goal >= 0) || !(c.GoalMFU >= 0) || c.GoalMFU > 1:
		return errors.New("--min-gain must be less than 100%, --end-at not negative, and --goal mfu=SHARE at most 100%")
	case c.MaxDisk < 0 || (c.Spend != "") != (c.MaxSpend > 0) || c.MaxSpend < 0:
		return errors.New("--max-disk must not be negative, and --spend COMMAND goes with --max-spend AMOUNT, more than 0")
	case !slices.Contains(Sandboxes, c.Sandbox):
		return fmt.Errorf("--sandbox %s: want %s", c.Sandbox, strings.Join(Sandboxes, ", "))
	case !slices.Contains(Syncs, c.SyncBase):
		return fmt.Errorf("--sync-base %s: want %s", c.SyncBase, strings.Join(Syncs, ", "))
	}
	if err := CheckPrompt(cmp.Or(c.Prompt, DefaultPrompt)); err != nil {
		return err
	}
	for _, p := range []*string{&c.Dir, &c.Repo, &c.Holdout} {
		if *p != "" {
			if *p, err = filepath.Abs(*p); err != nil {
				return err
			}
		}
	}
	if c.Holdout != "" {
		if _, err := os.Stat(c.Holdout); err != nil {
			return fmt.Errorf("--holdout: %w", err)
		}
	}
	for i, p := range c.Show {
		if c.Show[i], err = shown(p); err != nil {
			return fmt.Errorf("--show: %w", err)
		}
	}
	if c.Note == nil {
		c.Note = func(string) {}
	}
	if c.Warn == nil {
		c.Warn = func(text string) { c.Note("warning: " + text) }
	}
	if c.Ended == nil {
		c.Ended = func(Record) {}
	}
	if c.Step == nil {
		c.Step = func(string) {}
	}
	return nil
}

// shown returns the absolute path of a file or folder to show in a sandbox.
func shown(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(home, rest)
	}
	if _, err := os.Stat(path); err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// configName is the file of the configuration in the folder of a run.
const configName = "loop.json"

// Load reads the configuration of the run in a folder.
func Load(dir string) (c Config, err error) {
	text, err := os.ReadFile(filepath.Join(dir, configName))
	if errors.Is(err, os.ErrNotExist) {
		return c, fmt.Errorf("there is no loop in %s: gdngen loop --run %[1]s begins one", dir)
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err == nil {
		c.Dir, err = filepath.Abs(dir)
	}
	return c, err
}

func (c *Config) save() error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(c.Dir, configName), append(text, '\n'))
}
