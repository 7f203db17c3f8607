// Package remote runs commands on machines that the user does not sit at.
package remote
