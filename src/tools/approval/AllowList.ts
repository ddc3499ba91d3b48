/**
 * Entries of `command_allowlist`: calls that run without a question.
 *
 * **Details**
 *
 * - `command: rm -r build` is one command line that the user approved permanently. It matches this exact text only.
 * - `path: /srv/site/index.html` is one file that may be written, `tool: deploy` one tool that itself requires
 *   approval, `call: deploy {"to":"test"}` one call, `host: example.com` one host that may be reached.
 * - `git push *` is a prefix: single commands that begin with these words ({@link CommandPrefix}).
 * - Any other text is a glob written by the operator, for commands (`git push*`) or for a tool's name. It covers a line
 *   if all of its commands match, unless a redirection reads or writes a file, a variable is set for a program, or a
 *   program is called by a path outside the system's directories: the matched text does not include these.
 *
 * Until version 0.1 a permanent approval was stored as a kind of danger (`recursive delete`), which allowed every
 * command of that kind. Such entries are dropped, with one warning.
 *
 * Source: `ARCHITECTURE.md` §7 (approvals), which overrides `hermes-llm.md` §19.7 here.
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import { Home } from "../../base/config/Environment.ts"
import * as CommandPrefix from "./CommandPrefix.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"

/** Kind of a permanently approved target. Each kind matches the text of a {@link Target} exactly. */
type Kind = "command" | "prefix" | "path" | "host" | "tool" | "call"

/** A target that an approval is granted for. */
export interface Target {
  readonly kind: Kind
  /**
   * The command line, its prefix, the absolute path, the host, the name of the tool, or the tool with its arguments.
   */
  readonly text: string
}

/** Formats the entry that stores a permanent approval. */
export const formatEntry = ({ kind, text }: Target): string =>
  kind === "prefix" ? CommandPrefix.toGlob(text) : `${kind}: ${text}`

/** The entries of a list, grouped by kind. */
interface ParsedEntries {
  /** Entries stored for approvals, as written by {@link formatEntry}. */
  readonly exact: ReadonlySet<string>
  readonly globs: ReadonlyArray<string>
  /** Entries that name a kind of danger. They are no longer valid. */
  readonly dropped: ReadonlyArray<string>
}

const isExact = (entry: string): boolean => /^(?:command|path|host|tool|call): ./s.test(entry)

/** Kinds of danger stored by earlier versions. */
const formerKinds: ReadonlySet<string> = new Set([
  "SQL DELETE without WHERE",
  "SQL DROP",
  "SQL TRUNCATE",
  "SQL UPDATE without WHERE",
  "access to the metadata service of a cloud machine",
  "another container daemon",
  "capabilities of a program",
  "characters that hide or reorder text",
  "container with access to the host",
  "credentials put under version control",
  "data in a name that is looked up",
  "decoded text piped to a shell or interpreter",
  "decoded text run by a shell or interpreter",
  "delete in the root directory",
  "delete of a configuration or credential file",
  "delete of a remote branch or tag",
  "delete of everything in a directory",
  "delete of untracked files (git clean -f)",
  "delete of what a search finds (find -exec rm)",
  "delete of what the input names (xargs rm)",
  "deletion that can not be undone (shred)",
  "disk copy (dd)",
  "download piped to a shell or interpreter",
  "download run by a shell or interpreter",
  "download that is run at once",
  "emptying of a database",
  "emptying of a file outside the project",
  "encoded command for PowerShell",
  "end of somebody's session",
  "entering of another namespace",
  "files with secrets served to others",
  "forced delete of a branch (git branch -D)",
  "forced push (git push --force)",
  "fork bomb",
  "git setting that runs programs",
  "kill by force",
  "kill of processes by force",
  "kill of the agent itself",
  "kill of the first process or the own group",
  "kill of what a process search finds",
  "loss of stashed changes",
  "loss of uncommitted changes (git checkout)",
  "loss of uncommitted changes (git reset --hard)",
  "loss of uncommitted changes (git restore)",
  "loss of uncommitted changes (git worktree)",
  "making of a file system",
  "move into nothing (/dev/null)",
  "move of a system or home directory",
  "overwriting of a system path",
  "overwriting with nothing",
  "ownership of a system path",
  "packages from a source that is not trusted",
  "password for sudo on its input",
  "permissions for everybody (chmod 777)",
  "permissions of a system file",
  "program that is made to run another one",
  "program that is not known before it runs",
  "reading of credentials",
  "recursive delete",
  "recursive delete of a whole system or home (find)",
  "recursive delete of the root directory",
  "recursive ownership for root (chown -R root)",
  "recursive permissions on a system directory",
  "removal of a volume",
  "removal of cloud resources",
  "removal of system packages",
  "removal of the record of what was done",
  "removal of what runs in a cluster",
  "rewriting of history (git)",
  "script for a shell in its arguments (sh -c)",
  "script for an interpreter in its arguments (python -c, node -e)",
  "script in a here-document",
  "script made executable and run at once",
  "sending of a file",
  "sending of a variable that holds a secret",
  "sending of data about this machine",
  "sending of what a command writes",
  "set-user or set-group bit",
  "shell over the network",
  "shutdown or restart of the machine",
  "start of the agent in the background",
  "stopping or removal of containers",
  "stopping or updating of the agent",
  "synchronisation that deletes (rsync --delete)",
  "text piped to a shell",
  "tunnel into this machine",
  "unknown program with the rights of root",
  "unmounting of a system path",
  "withdrawal of a published package"
])

const isFormer = (entry: string): boolean =>
  formerKinds.has(entry) ||
  entry.startsWith("change of ") ||
  /^\S+ (?:may change or delete things|asks for an approval)$/.test(entry)

/** Groups the entries of a list by kind. */
export const parse = (entries: ReadonlyArray<string>): ParsedEntries => ({
  exact: new Set(entries.filter(isExact)),
  globs: entries.filter((entry) => !isExact(entry) && !isFormer(entry)),
  dropped: entries.filter((entry) => !isExact(entry) && isFormer(entry))
})

/** Returns the warning about entries that are no longer valid; `undefined` if there are no such entries. */
export const renderNotice = ({ dropped }: ParsedEntries): string | undefined =>
  dropped.length === 0
    ? undefined
    : `command_allowlist: ${dropped.map((entry) => `"${entry}"`).join(", ")} ` +
      `${dropped.length === 1 ? "approves a kind of danger and is" : "approve kinds of danger and are"} ignored. ` +
      `Remove ${dropped.length === 1 ? "it" : "them"}, and list commands or globs of commands, such as "rm -r ` +
      'build" or "git push*".'

// Earlier approvals, for a session or permanent, each for one command, path or call. A port stores permanent approvals,
// so that they hold after a restart.
//
// Source: `hermes-llm.md` §19.7 (choices), cases 163 and 164, `ARCHITECTURE.md` §7 (approvals).

/** Port that stores permanent approvals as entries of `command_allowlist`. */
export interface AllowListStore {
  readonly add: (entries: ReadonlyArray<string>) => Effect.Effect<void, ConfigError>
}

/** Current {@link AllowListStore}. By default, approvals are stored in memory. */
export const AllowList = Context.Reference<AllowListStore>("hermes-effect/tool/approval/AllowList", {
  defaultValue: () => ({ add: () => Effect.void })
})

/** Stores permanent approvals in `command_allowlist` of the configuration file. */
export const allowListFile: Layer.Layer<never, never, FileSystem.FileSystem | Home | Path.Path> = Layer.effect(
  AllowList,
  Effect.map(Effect.context<FileSystem.FileSystem | Home | Path.Path>(), (context) => ({
    add: (entries: ReadonlyArray<string>) =>
      Effect.promise(() => import("../../base/config/Edit.ts")).pipe(
        Effect.flatMap(({ modify }) =>
          modify(["command_allowlist"], (value) => {
            const known: ReadonlyArray<unknown> = Array.isArray(value) ? value : []
            return [...known, ...entries.filter((entry) => !known.includes(entry))]
          })
        ),
        Effect.asVoid,
        Effect.provideContext(context)
      )
  }))
)

/** One approval of a target for a specific reason. Another reason for the same target requires a new question. */
export interface Approval {
  readonly target: Target
  readonly reason: string
  /** True if a permanent approval applies to this approval. */
  readonly permanent: boolean
}

/** Approvals given so far. */
export interface Memory {
  readonly knows: (session: string, approved: Approval) => boolean
  readonly rememberSession: (session: string, approved: ReadonlyArray<Approval>) => void
  /** Stores approvals permanently. If storing fails, the approval holds for this process, and a warning says why. */
  readonly rememberAlways: (targets: ReadonlyArray<Target>) => Effect.Effect<void>
  readonly forget: (session: string) => void
}

const formatKey = ({ reason, target }: Approval): string => JSON.stringify([target.kind, target.text, reason])

/** Creates a memory that starts with the permanently approved entries. */
export const makeMemory = (allowed: Iterable<string>, store: AllowListStore): Memory => {
  const always = new Set(allowed)
  const sessions = new Map<string, Set<string>>()
  return {
    knows: (session, approved) =>
      (approved.permanent && always.has(formatEntry(approved.target))) ||
      sessions.get(session)?.has(formatKey(approved)) === true,
    rememberSession: (session, approved) => {
      const known = sessions.get(session) ?? new Set()
      sessions.set(session, known)
      for (const one of approved) known.add(formatKey(one))
    },
    rememberAlways: (targets) =>
      Effect.suspend(() => {
        const entries = Array.from(new Set(targets.map(formatEntry)))
        for (const entry of entries) always.add(entry)
        return store.add(entries)
      }).pipe(Effect.catch((error) => Effect.logWarning(`the approval holds for this process only: ${error.message}`))),
    forget: (session) => void sessions.delete(session)
  }
}
