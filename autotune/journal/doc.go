// Package journal is the record of a search: an append-only file from which a killed run resumes. Rules:
//
//  1. A journal is JSON lines. A line holds one record: its number, the checksum of the record before it, its kind, its
//     body, its times, and its own checksum, which is the SHA-256 of the line before the field sum, brace closed.
//  2. A record is on the disk (fsync) before Append returns. Nothing is ever changed or removed.
//  3. A last line without its end is an interrupted write: it is dropped with a warning, and truncated when the journal is
//     opened for writing. Any other damage is a [CorruptError] which names the line.
//  4. One writer at a time: a second one gets a [LockedError]. Readers need no lock.
//  5. State is a fold over the records ([State.Add]). A run's decisions are a function of the header and the candidates
//     before; times are kept outside of bodies, so that equal runs have equal bodies ([Record.Decision]).
package journal
