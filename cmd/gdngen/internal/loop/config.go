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

// Config is what a loop does. Run keeps it in its folder, so that a run can be resumed by its folder alone.
type Config struct {
	Dir        string        `json:"-"`          // folder of the run
	Repo       string        `json:"repo"`       // the user's repository; it is read, but for refs
	Branch     string        `json:"branch"`     // that keeps move; made at HEAD where it is missing
	Agent      string        `json:"agent"`      // shell command; the prompt is its standard input
	Iterations int           `json:"iterations"` // of the whole run; interrupted ones do not count
	Budget     time.Duration `json:"budget"`     // of a session; no iteration begins after it; 0: none

	Prompt     string      `json:"prompt,omitempty"` // template; empty: DefaultPrompt
	Directives []Directive `json:"directives,omitempty"`
	Objective  string      `json:"objective,omitempty"`
	Bound      string      `json:"bound,omitempty"`      // what the figure can not fall below, in words
	Kernels    []string    `json:"kernels,omitempty"`    // files and folders of the code under work
	References []string    `json:"references,omitempty"` // what to read before the work
	Goal       float64     `json:"goal,omitempty"`       // the loop ends at a figure so small (--end-at); 0: none
	GoalMFU    float64     `json:"goal_mfu,omitempty"`   // the loop ends at such a model flop utilisation, as a command of the judge notes it; 0: none

	Build        string        `json:"build,omitempty"` // command in the judge's clones, before all others
	Checks       []string      `json:"checks,omitempty"`
	CheckRetries int           `json:"check_retries"`
	CheckTimeout time.Duration `json:"check_timeout"` // of a check, a build or a figure
	Measure      string        `json:"measure"`       // command whose last line is the figure; less is better
	Repeat       int           `json:"repeat"`        // interleaved pairs of base and change
	Guards       []Guard       `json:"guards,omitempty"`
	Effect       string        `json:"effect,omitempty"`    // command whose output a change must change
	HotSpots     string        `json:"hot_spots,omitempty"` // command that prints them, one a line, for the prompt

	MinGain       float64 `json:"min_gain"`       // share that a keep gains at least
	MinExpected   float64 `json:"min_expected"`   // share that a change is expected to gain
	MaxRegression float64 `json:"max_regression"` // share that a scaffold may lose
	EscalateBelow float64 `json:"escalate_below"` // a keep of less is no reason to go on alike
	AllowScaffold int     `json:"allow_scaffold"` // in a row

	Protect []string `json:"protect"`           // files, folders and patterns that may not change
	Allow   []string `json:"allow,omitempty"`   // exceptions
	Holdout string   `json:"holdout,omitempty"` // a file for the checks that the agent does not see
	MaxFile int64    `json:"max_file"`          // bytes

	AgentTimeout time.Duration `json:"agent_timeout"`
	AgentIdle    time.Duration `json:"agent_idle"` // without output
	AgentRetries int           `json:"agent_retries"`
	MaxFailures  int           `json:"max_failures"` // in a row, of a session; 0 or less: no limit
	Resilient    bool          `json:"resilient"`    // failures of the machinery are tried again

	MaxDisk  int64   `json:"max_disk,omitempty"`  // bytes that the run may take on the disk; 0: no limit
	Spend    string  `json:"spend,omitempty"`     // command whose last line is what agents have spent so far
	MaxSpend float64 `json:"max_spend,omitempty"` // at which the loop pauses

	IncludeDirty bool `json:"include_dirty,omitempty"` // agents see what the user has not committed; the branch does not get it

	Sandbox      string   `json:"sandbox"`                 // of Sandboxes
	Show         []string `json:"show,omitempty"`          // files and folders of homes, /tmp and /run that agent and checks may read
	AgentNetwork bool     `json:"agent_network,omitempty"` // agents reach the network
	CheckNetwork bool     `json:"check_network,omitempty"` // checks do; with On they do in any case
	Unwatched    bool     `json:"unattended,omitempty"`    // warnings are not read: no sandbox is an error, unless Sandbox is none

	Env      []string `json:"env,omitempty"` // names of variables that agent and checks see beside the usual ones
	On       string   `json:"on,omitempty"`  // place of gdngen remote, for the agent and the checks
	SyncBase string   `json:"sync_base"`     // of Syncs

	ShowFileUpdates bool              `json:"-"`
	Judge           string            `json:"-"` // program that is gdngen for agent and checks; empty: none
	JudgeEnv        []string          `json:"-"` // for the checks, such as where plugins are
	Readable        []string          `json:"-"` // shown to agent and checks beside Show, such as the folder of plugins
	Note            func(string)      `json:"-"`
	Warn            func(string)      `json:"-"`
	Ended           func(Record)      `json:"-"` // called for each iteration that is over
	Step            func(name string) `json:"-"` // called before each step, for tests
}

// Elsewhere names a check that uses another place than the loop's; empty where none does.
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

// Guard is a figure that may rise by a share at most.
type Guard struct {
	Command string  `json:"command"`
	Share   float64 `json:"share"`
}

// ParseGuard reads COMMAND=SHARE.
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

// DefaultProtect is what judges a change of gdngen itself: references and inputs, exams, gates, costs, the ladder and the loop.
var DefaultProtect = []string{"tests", "gdn/truth", "gdn/exam", "autotune/judge", "autotune/guards.go", "autotune/text_score.go", "autotune/journal", "autotune/ladder", "autotune/measure", "cmd/gdngen/internal/loop", "ir/target", "pjrt/llo", "pjrt/machine", "go.mod", "go.sum", ".ci", ".github"}

// Defaults is a configuration with everything but folder, agent and measure.
func Defaults() Config {
	return Config{Repo: ".", Branch: "gdngen-loop", Iterations: 10, CheckRetries: 1, CheckTimeout: 30 * time.Minute, Repeat: 1, MinGain: .0025, MinExpected: .1, MaxRegression: .01, EscalateBelow: .03,
		Protect: slices.Clone(DefaultProtect), MaxFile: 32 << 20, AgentTimeout: 2 * time.Hour, AgentIdle: 15 * time.Minute, AgentRetries: 1, MaxFailures: 3, Sandbox: "auto", SyncBase: "off"}
}

// Unattended changes a configuration for nights: no failure ends the loop, and all is tried again.
func (c *Config) Unattended() {
	c.Resilient, c.MaxFailures, c.AgentRetries, c.CheckRetries = true, 0, max(2, c.AgentRetries), max(2, c.CheckRetries)
}

// Validate says what of a configuration no loop can be made of, and completes its paths.
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

// shown is the absolute path of a file or folder that is shown in a sandbox.
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

// Load reads the configuration of a run.
func Load(dir string) (c Config, err error) {
	text, err := os.ReadFile(filepath.Join(dir, configName))
	if errors.Is(err, os.ErrNotExist) {
		return c, fmt.Errorf("there is no loop in %s", dir)
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
