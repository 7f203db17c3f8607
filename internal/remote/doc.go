// Package remote runs commands on other machines.
//
// A Place is a way to do that: ssh, a cloud's TPU machines by its own command line, or Ray Jobs. A Job's id is chosen here, so that a request
// whose answer was lost can be repeated without a second job. Its output and the files in its results folder can be read as they grow, also
// after the connection was cut. This program is copied along with a job, by its hash; nothing is installed by hand.
package remote
