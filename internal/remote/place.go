package remote

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// OnEnv is the environment variable with the default place.
const OnEnv = "GDNGEN_ON"

// Place runs commands on another machine. After any error, every method may be called again.
type Place interface {
	// Submit begins a job. If the job exists, it does nothing.
	Submit(ctx context.Context, j *Job) error
	// Status returns the state of a job, or a *NoJobError.
	Status(ctx context.Context, id string) (*State, error)
	// Logs returns the output of a job from a byte on. With follow the stream goes on while the job runs, but may end early.
	Logs(ctx context.Context, id string, from int64, follow bool) (io.ReadCloser, error)
	// Stop ends a job. It returns once the job has ended, or with an error that says why it has not.
	Stop(ctx context.Context, id string) error
	// Files lists the files in a job's results folder.
	Files(ctx context.Context, id string) ([]File, error)
	// Open opens one of the result files.
	Open(ctx context.Context, id, name string) (io.ReadCloser, error)
	// List returns the jobs of a place, by id.
	List(ctx context.Context) ([]Listed, error)
}

// Job is a command to run on a Place.
type Job struct {
	ID        string             `json:"id"`
	Place     string             `json:"place"`
	Command   []string           `json:"command"`             // @out at the beginning of a word, or after a =, becomes the results folder
	Files     []string           `json:"files,omitempty"`     // local files and folders to copy into its working folder
	EnvNames  []string           `json:"env,omitempty"`       // names in Env; values are never stored here
	Env       map[string]string  `json:"-"`                   //
	CPUs      float64            `json:"cpus,omitempty"`      // requested, if the place counts
	Resources map[string]float64 `json:"resources,omitempty"` // likewise, by name
	Limit     time.Duration      `json:"limit,omitempty"`     // time limit of its run; 0: none
	Pending   time.Duration      `json:"pending,omitempty"`   // longest wait to begin; 0: no limit
	NoSync    bool               `json:"no_sync,omitempty"`   // gdngen is already there, on PATH
	Submitted time.Time          `json:"submitted"`
}

// Phase is the progress of a job.
type Phase string

// The phases.
const (
	Pending   Phase = "pending"
	Running   Phase = "running"
	Succeeded Phase = "succeeded"
	Failed    Phase = "failed"
	Stopped   Phase = "stopped"
	Lost      Phase = "lost" // it does not run, and left no exit status
)

// Done reports whether a job has ended.
func (p Phase) Done() bool { return p != Pending && p != Running }

// State is the state of a job.
type State struct {
	Phase   Phase  `json:"phase"`
	Exit    int    `json:"exit"` // status of the command, once it succeeded or failed
	Node    string `json:"node,omitempty"`
	Message string `json:"message,omitempty"`
}

// File is a result of a job.
type File struct {
	Name string `json:"name"` // below the folder for results, with slashes
	Size int64  `json:"size"` // bytes; -1: unknown
}

// Listed is a job in a list.
type Listed struct {
	ID    string `json:"id"`
	State State  `json:"state"`
}

// NoJobError says that a place has no such job.
type NoJobError struct{ Place, ID string }

func (e *NoJobError) Error() string { return fmt.Sprintf("%s has no job %s", e.Place, e.ID) }

// ErrPlace marks errors in the text of a place or of a job.
var ErrPlace = errors.New("")

func badPlace(format string, args ...any) error {
	return fmt.Errorf("%w"+format, append([]any{ErrPlace}, args...)...)
}

// kinds is the table of places.
var kinds = []struct {
	name, form, doc string
	open            func(rest string) (Place, error)
}{
	{"ssh", "ssh:[USER@]HOST", "a machine that ssh reaches without a password", openSSH},
	{"tpu", "tpu:NAME[?zone=Z[&project=P]]", "a cloud's TPU machine, by its command line gcloud; by its name alone where it is held", openTPU},
	{"ray", "ray:URL", "a Ray cluster by the address of its dashboard, such as ray:http://head:8265; RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH has its token", openRay},
}

// Docs returns the syntax of each place, and its meaning.
func Docs() (forms, docs []string) {
	for _, k := range kinds {
		forms, docs = append(forms, k.form), append(docs, k.doc)
	}
	return forms, docs
}

// PlacesName is the file with names for places, in the folder gdngen of the user's configuration: a JSON object of texts by name.
const PlacesName = "places.json"

// Parse returns a place by its text, or by its name in the user's file, and its full text.
func Parse(text string) (Place, string, error) {
	if text == Auto {
		found, _, err := FindPlace()
		if err != nil {
			return nil, "", err
		}
		return Parse(found)
	}
	forms, _ := Docs()
	name, rest, has := strings.Cut(text, ":")
	for _, k := range kinds {
		if k.name == name && has {
			if rest == "" {
				return nil, "", badPlace("place %q: want %s", text, k.form)
			}
			p, err := k.open(rest)
			return p, text, err
		}
	}
	if has || text == "" {
		return nil, "", badPlace("unknown place %q (known: %s, and names in %s)", text, strings.Join(forms, " "), PlacesName)
	}
	file, names, err := userPlaces()
	if err != nil {
		return nil, "", err
	}
	full, ok := names[text]
	if !ok || !strings.Contains(full, ":") {
		return nil, "", badPlace("place %q is no name in %s (known: %s)", text, file, strings.Join(forms, " "))
	}
	return Parse(full)
}

func userPlaces() (file string, names map[string]string, err error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", nil, err
	}
	file = filepath.Join(dir, "gdngen", PlacesName)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &names)
	}
	if err != nil {
		return file, nil, fmt.Errorf("%s: %w", file, err)
	}
	return file, names, nil
}

var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// NewID returns a new id: the kind, the time and random characters.
func NewID(kind string) string {
	return kind + "-" + time.Now().UTC().Format("0102-150405") + "-" + strings.ToLower(rand.Text()[:6])
}

// CheckID returns why a text is not a valid id, or nil.
func CheckID(id string) error {
	if !validID.MatchString(id) {
		return badPlace("id %q: want letters, digits, dots, dashes and underscores, at most 64", id)
	}
	return nil
}

var validEnv = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Check returns why a job can not be submitted, or nil.
func (j *Job) Check() error {
	if err := CheckID(j.ID); err != nil {
		return err
	}
	if len(j.Command) == 0 {
		return badPlace("a job needs a command, after --")
	}
	seen := map[string]bool{}
	for _, f := range j.Files {
		name, err := baseName(f)
		if err != nil {
			return err
		}
		if seen[name] {
			return badPlace("two files named %s", name)
		}
		seen[name] = true
	}
	if _, err := luggage(j.Files); err != nil {
		return err
	}
	for _, name := range j.EnvNames {
		if !validEnv.MatchString(name) {
			return badPlace("%q is no name of a variable", name)
		}
	}
	return nil
}

// outWord stands for the results folder in a word of a command.
const outWord = "@out"

// line returns the command for a shell in which GDNGEN_OUT is set.
func (j *Job) line() string {
	l := make([]string, len(j.Command))
	for i, w := range j.Command {
		before, after, ok := strings.Cut(w, outWord)
		if ok && (before == "" || strings.HasSuffix(before, "=")) && (after == "" || after[0] == '/') {
			l[i] = Quote(before) + `"$GDNGEN_OUT"` + Quote(after)
		} else {
			l[i] = Quote(w)
		}
	}
	return strings.Join(l, " ")
}
