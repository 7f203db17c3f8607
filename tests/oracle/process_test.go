package oracle

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// process is a mosaic_eval.py that serves one request after another: it imports JAX once, and compiles each operation of XLA once.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Reader
	log     *bytes.Buffer
}

// idle are the processes without a client: as many are made as tests ask at a time.
var idle struct {
	sync.Mutex
	list []*process
}

// borrow takes an idle process, or starts one.
func borrow(t *testing.T, python string) *process {
	t.Helper()
	idle.Lock()
	defer idle.Unlock()
	if n := len(idle.list); n > 0 {
		p := idle.list[n-1]
		idle.list = idle.list[:n-1]
		return p
	}
	p := &process{cmd: exec.Command(python, "mosaic_eval.py", "-"), log: &bytes.Buffer{}}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), quickJAX...), p.log
	var err error
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.answers = bufio.NewReader(out)
	require.NoError(t, p.cmd.Start())
	return p
}

func giveBack(p *process) {
	idle.Lock()
	defer idle.Unlock()
	idle.list = append(idle.list, p)
}

// endProcesses ends what is idle; a process ends with its standard input.
func endProcesses() {
	for _, p := range idle.list {
		_ = p.in.Close()
		_ = p.cmd.Wait()
	}
}

// ask has a module computed from file to file, and gives what went wrong there; err is about the process.
func (p *process) ask(module, inputs, out string) (wrong string, err error) {
	request, err := json.Marshal(map[string]string{"module": module, "inputs": inputs, "out": out})
	if err != nil {
		return "", err
	}
	if _, err = p.in.Write(append(request, '\n')); err == nil {
		var answer []byte
		if answer, err = p.answers.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(answer, &wrong)
		}
	}
	if err != nil {
		_ = p.in.Close()
		return "", fmt.Errorf("mosaic_eval.py: %w (%v): %s", err, p.cmd.Wait(), p.log)
	}
	return wrong, nil
}

// A module that can not be computed is told of, and the process goes on to the next.
func TestProcess(t *testing.T) {
	p := borrow(t, python(t))
	for range 2 {
		wrong, err := p.ask("/does/not/exist", "/does/not/exist.npz", "out.npz")
		require.NoError(t, err)
		require.Contains(t, wrong, "FileNotFoundError")
	}
	giveBack(p)
}
