//go:build linux

package loop

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A night that fills the disk pauses, an agent that does is ended, and the same command goes on once there is room.
func TestMaxDisk(t *testing.T) {
	was := diskEvery
	diskEvery = 20 * time.Millisecond
	defer func() { diskEvery = was }()
	c := bed(t, `test $GDNGEN_ITERATION = 1 || { echo 60 > cost; exit; }; head -c 60000000 /dev/zero > ../tmp/big; echo full; sleep 9; echo 50 > cost`)
	c.Iterations, c.MaxDisk = 2, 30<<20
	var pause *PauseError
	err := Run(t.Context(), c)
	require.ErrorAs(t, err, &pause)
	require.ErrorAs(t, err, new(*LimitError))
	require.ErrorContains(t, err, "more than --max-disk 30.0 MiB; raise it, or make room there")
	done := ends(must(ReadRecords(c.Dir)))
	require.Len(t, done, 1)
	require.Equal(t, AgentFailed, done[0].Verdict)
	require.Contains(t, done[0].Reason, "the run's folder has")
	require.NoError(t, Run(t.Context(), c), "clones are removed with the session")
	require.Equal(t, Keep, ends(must(ReadRecords(c.Dir)))[1].Verdict)

	c = bed(t, "echo 50 > cost")
	c.Checks, c.MaxDisk = []string{"head -c 60000000 /dev/zero > big; sleep 9"}, 30<<20
	require.ErrorAs(t, func() error { c.Iterations = 2; return Run(t.Context(), c) }(), &pause)
	require.Equal(t, CheckFailed, ends(must(ReadRecords(c.Dir)))[0].Verdict)
	require.Contains(t, ends(must(ReadRecords(c.Dir)))[0].Reason, "--max-disk")

	sparse := filepath.Join(t.TempDir(), "sparse")
	f := must(os.Create(sparse))
	require.NoError(t, f.Truncate(1<<30))
	require.NoError(t, f.Close())
	require.Less(t, usage(filepath.Dir(sparse)), int64(1<<20), "holes take nothing")
}

// What agents spend is told by a command: the loop pauses at the limit, ends an agent that passes it, and goes on where it is raised.
func TestSpend(t *testing.T) {
	was := spendEvery
	spendEvery = 50 * time.Millisecond
	defer func() { spendEvery = was }()
	c := bed(t, "")
	purse := filepath.Join(filepath.Dir(c.Dir), "purse")
	require.NoError(t, os.WriteFile(purse, []byte("0\n"), 0o644))
	c.Agent = `echo $(($(cat ` + purse + `) + 10)) > ` + purse + `; echo $((90 - GDNGEN_ITERATION)) > cost; test $GDNGEN_ITERATION != 3 || { echo 99 > ` + purse + `; sleep 9; }`
	c.Spend, c.MaxSpend, c.Iterations = "echo dollars:; cat "+purse, 20, 9
	err := Run(t.Context(), c)
	require.ErrorAs(t, err, new(*PauseError))
	require.ErrorContains(t, err, "--spend tells 20, and --max-spend is 20")
	require.Len(t, ends(must(ReadRecords(c.Dir))), 2)
	require.Equal(t, 10., ends(must(ReadRecords(c.Dir)))[1].Spent)

	c.MaxSpend = 50
	require.ErrorContains(t, Run(t.Context(), c), "--spend tells 99, and --max-spend is 50")
	last := ends(must(ReadRecords(c.Dir)))[2]
	require.Equal(t, AgentFailed, last.Verdict)
	require.Contains(t, last.Reason, "--spend tells 99")
	require.Equal(t, 99., must(Status(c.Dir)).Spent)

	for command, says := range map[string]string{"echo much": `its last line is "much"`, "exit 3": "ended with status 3", "echo nan": "tells no amount", "echo -1": "tells no amount"} {
		c.Spend = command
		err := Run(t.Context(), c)
		require.ErrorAs(t, err, new(*PauseError), command)
		require.ErrorContains(t, err, says)
	}
	c.Spend = ""
	require.ErrorContains(t, c.Validate(), "--spend COMMAND goes with --max-spend")
}
