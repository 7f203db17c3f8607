// Package remote runs commands on machines that the user does not sit at.
//
// A Place is a way to do that: ssh, a cloud's TPU machines by its own command line, Ray Jobs. A Job has an id of ours, so that a lost
// answer can be asked for again without a second job; its output and the files below its folder for results can be read as they grow,
// and again after a connection was cut. The program itself travels with a job, by its hash; nothing is installed by hand.
package remote
