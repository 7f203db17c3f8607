// Package loop lets an agent that changes code work unattended: an iteration gives it a clone, makes one commit of what it left, or none,
// and judges that commit out of its reach.
//
// Rules:
//
//  1. The user's work tree, index, hooks and configuration are never touched. A branch moves by compare and swap, attempts are on side refs.
//  2. The journal says what is about to happen before it happens, and is synced, so a loop that was killed goes on by the same command.
//  3. What the agent left in its .git is never read: its configuration could name programs. Commits are made in a git folder of the loop's own.
//  4. An agent's processes end with its iteration, daemons included, and with the loop, however that ends.
//  5. Hold-out seeds are drawn after the agent has ended. Checks and figures run in fresh clones, with this program as it was at the start.
//  6. A failure of the machinery is no verdict on the agent.
package loop
