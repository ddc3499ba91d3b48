/**
 * Records the shell hooks that the user agreed to. A hook is the user's own program with the user's own rights, named
 * by a file that may come from elsewhere: a hook does not run before the user agreed to its first use, nor after its
 * program was changed.
 *
 * **Details**
 *
 * Consent is given for each event and command, and stored in `shell-hooks-allowlist.json` of the home directory:
 * `{ approvals: [{ event, command, approved_at, script_mtime_at_approval, fingerprint }] }`. The fingerprint covers
 * every file that the command names, so that `python3 guard.py` changes with `guard.py`. An entry without a fingerprint
 * (written by another program) counts as changed. The contract only stores the time of the file's last change, which is
 * less reliable and easily set. If the two disagree, the safer result is used.
 *
 * A lease in `state.db` serialises the writers of all processes, which replace the whole file. A file that cannot be
 * read approves no hook.
 *
 * Source: `hermes-contract.md` §3.7.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Digest from "effect/crypto/Digest"
import * as Ids from "../base/domain/Ids.ts"
import * as Leases from "../base/platform/Leases.ts"
import type { ShellHook } from "./ShellHookConfig.ts"
import { parseCommand, type Surroundings } from "./ShellHookProcess.ts"

/** Reports that the consent file could not be read or written. */
export class ConsentError extends Schema.TaggedError<ConsentError>("hermes-effect/ConsentError")("ConsentError", {
  path: Schema.String,
  message: Schema.String
}) {}

/** Fields that another program added to an entry are preserved. */
const Approval = Schema.StructWithRest(
  Schema.Struct({
    event: Schema.String,
    command: Schema.String,
    approved_at: Schema.String,
    script_mtime_at_approval: Schema.NullOr(Schema.String),
    fingerprint: Schema.optionalKey(Schema.String)
  }),
  [Schema.Record(Schema.String, Schema.Json)]
)
type Approval = typeof Approval.Type

const Allowlist = Schema.fromJsonString(Schema.Struct({ approvals: Schema.Array(Approval) }))

/** Consent to a hook: agreed to in its current form, agreed to in another form, or never seen. */
export type Consent = "approved" | "changed" | "unseen"

/** Name of the consent file in the home directory. */
export const fileName = "shell-hooks-allowlist.json"

/** Reads and records consent to shell hooks. */
interface Service {
  readonly status: (hook: ShellHook) => Effect.Effect<Consent>
  readonly approve: (hook: ShellHook) => Effect.Effect<void, ConsentError>
  /** Removes the approvals of a command for all its events. Returns their number. */
  readonly revoke: (command: string) => Effect.Effect<number, ConsentError>
}

/** Maximum size of a file whose contents are compared. For a larger file only size and time are compared. */
const largestRead = 16 * 1024 * 1024

const isFor =
  (hook: ShellHook) =>
  (approval: Approval): boolean =>
    approval.event === hook.event && approval.command === hook.command

/** Creates a consent store in a home directory. */
export const make = (
  home: string,
  surroundings: Surroundings
): Effect.Effect<Service, never, FileSystem.FileSystem | Path.Path | Digest.Digest> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const digest = yield* Digest.Digest
    const file = paths.join(home, fileName)

    const toConsentError = (error: { readonly message: string }): ConsentError =>
      new ConsentError({ path: file, message: `${file} cannot be used; correct or remove it: ${error.message}` })

    const read: Effect.Effect<ReadonlyArray<Approval>, ConsentError> = fs.readFileString(file).pipe(
      Effect.catchIf(
        (error) => error.reason._tag === "NotFound",
        () => Effect.succeed(`{"approvals":[]}`)
      ),
      Effect.flatMap(Schema.decodeUnknownEffect(Allowlist)),
      Effect.mapBoth({ onFailure: toConsentError, onSuccess: ({ approvals }) => approvals })
    )

    /**
     * Returns a word of a command and the contents of the file to which the word refers. There are no contents for an
     * option, a directory or a name that is searched in `PATH`.
     */
    const readScript = (word: string) =>
      Effect.gen(function* () {
        const path = paths.resolve(surroundings.cwd, word)
        const info = yield* fs.stat(path)
        const mtime = Option.getOrNull(Option.map(info.mtime, (at) => at.toISOString()))
        if (info.type !== "File") return []
        const content =
          Number(info.size) > largestRead
            ? `${info.size} ${mtime}`
            : yield* digest.digestHex(Digest.sha256, yield* fs.readFile(path))
        return [{ word, content, mtime }]
      }).pipe(Effect.orElseSucceed(() => []))

    const readScripts = (hook: ShellHook) =>
      Effect.map(Effect.forEach(parseCommand(hook.command, surroundings.environment) ?? [], readScript), (found) =>
        found.flat()
      )

    const computeFingerprint = (found: ReadonlyArray<{ readonly word: string; readonly content: string }>) =>
      digest.digestHex(
        Digest.sha256,
        new TextEncoder().encode(JSON.stringify(found.map(({ content, word }) => [word, content])))
      )

    /** Replaces the file with the result of `change`. */
    const updateApprovals = <A>(
      change: (approvals: ReadonlyArray<Approval>) => readonly [ReadonlyArray<Approval>, A]
    ) =>
      Effect.gen(function* () {
        yield* fs.makeDirectory(home, { recursive: true, mode: 0o700 })
        return yield* Leases.runWithLease(paths.join(home, "state.db"), file, (lease) =>
          Effect.gen(function* () {
            const [approvals, result] = change(yield* read)
            if (!(yield* lease.isHeld))
              return yield* toConsentError({ message: "another process took over while this one waited" })
            const temporary = `${file}.${yield* Ids.makeHex(8)}.tmp`
            yield* fs.writeFileString(temporary, `${JSON.stringify({ approvals }, null, 2)}\n`, { mode: 0o600 })
            yield* fs.rename(temporary, file)
            return result
          })
        )
      }).pipe(
        Effect.provideService(FileSystem.FileSystem, fs),
        Effect.mapError((error) => (error._tag === "ConsentError" ? error : toConsentError(error)))
      )

    const status: Service["status"] = Effect.fnUntraced(function* (hook) {
      const approvals = yield* Effect.catch(read, (error) => Effect.as(Effect.logWarning(error.message), []))
      const approval = approvals.find(isFor(hook))
      if (approval === undefined) return "unseen"
      return approval.fingerprint === (yield* computeFingerprint(yield* readScripts(hook))) ? "approved" : "changed"
    })

    const approve: Service["approve"] = Effect.fnUntraced(function* (hook) {
      const found = yield* readScripts(hook)
      const approval: Approval = {
        event: hook.event,
        command: hook.command,
        approved_at: DateTime.formatIso(yield* DateTime.now),
        script_mtime_at_approval: found[0]?.mtime ?? null,
        fingerprint: yield* computeFingerprint(found)
      }
      yield* updateApprovals((approvals) => [
        [...approvals.filter((other) => !isFor(hook)(other)), approval],
        undefined
      ])
    })

    return {
      status,
      approve,
      revoke: (command) =>
        updateApprovals((approvals) => {
          const kept = approvals.filter((approval) => approval.command !== command)
          return [kept, approvals.length - kept.length]
        })
    }
  })
