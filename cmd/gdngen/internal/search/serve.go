package search

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gdngen/gdngen/cmd/gdngen/internal/app"
	"github.com/gdngen/gdngen/cmd/gdngen/internal/serve"
	"github.com/spf13/cobra"
)

// ServeCmd returns the command that shows a run in a browser.
func (a CLI) ServeCmd() *cobra.Command {
	var at string
	c := &cobra.Command{
		Use:   "serve DIR",
		Short: "Show a run or a loop in a browser while it goes on",
		Long: `serve shows a run to a browser on this machine: the curve of the best so far, the ranking, which sorts and filters, gates, workers and
time spent. It reads the journal of a search or a loop and writes nothing, so the run may be in progress, or over. The page loads nothing from other
hosts.

--listen names another address. There is no password: everyone who can reach the address can read the run. For another machine, forward the port by
ssh -L instead.`,
		Example: "  gdngen serve runs/first\n  gdngen serve runs/first --listen 127.0.0.1:0",
		Args:    app.Args(cobra.ExactArgs(1)),
		RunE:    func(_ *cobra.Command, args []string) error { return a.serve(args[0], at) },
	}
	c.Flags().StringVar(&at, "listen", "127.0.0.1:8970", "address and port; port 0 takes a free one")
	return c
}

func (a CLI) serve(dir, at string) error {
	host, _, err := net.SplitHostPort(at)
	if err != nil {
		return app.Usage(fmt.Errorf("--listen %s: want an address and a port, such as 127.0.0.1:8970", at))
	}
	s, err := serve.New(dir, host)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return fmt.Errorf("--listen %s: %w; --listen 127.0.0.1:0 takes a free port", at, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		a.Warn("%s can be reached from other machines, and nobody is asked for a password", listener.Addr())
	}
	a.Note("http://%s shows %s; an interrupt ends this", listener.Addr(), dir)
	h := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(a.Ctx, func() { h.Close() })()
	if err := h.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil // the normal end
}
