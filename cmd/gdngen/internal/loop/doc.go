// Package loop lets an agent that changes code work unattended. An iteration gives it a clone, makes one commit of its
// change, if any, and judges that commit where the agent can not interfere.
//
// Rules:
//
//  1. The user's work tree, index, hooks and configuration are never touched. A branch moves by compare and swap, attempts are on side refs.
//  2. The journal records each step before it happens, and is synced, so the same command resumes a loop that was killed.
//  3. The .git folder of the agent's clone is never read: its configuration could name programs. Commits are made in the loop's own git folder.
//  4. An agent's processes end with its iteration, daemons included, and with the loop, however that ends.
//  5. Hold-out seeds are drawn after the agent has ended. Checks and figures run in fresh clones, with this program as it was at the start.
//  6. A failure of the machinery is no verdict on the agent.
package loop
