/**
 * `hermes sessions diff` and `hermes sessions undo`: show and revert the file changes of a session's runs.
 *
 * Source: `hermes-product.md` §1.7 and §1.8.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { Environment, Home } from "../../base/config/Environment.ts"
import { Settings } from "../../base/config/Settings.ts"
import * as CommandEnvironment from "../../places/CommandEnvironment.ts"
import type { Platform } from "../../base/platform/ChildProcesses.ts"
import * as ChangeContents from "../../store/ChangeContents.ts"
import * as ChangeSets from "../../store/ChangeSets.ts"
import { type Session, SessionStore } from "../../store/SessionStore.ts"
import * as ConfiguredEnvironment from "../../tools/ConfiguredEnvironment.ts"
import * as FileUndo from "../../tools/FileUndo.ts"
import * as ChangeReports from "./ChangeReports.ts"
import { provide } from "./CommandSettings.ts"
import { makeWorkFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { printLine, printNote, Output, renderTable } from "./ProgramOutput.ts"
import * as DiffText from "./render/DiffText.ts"
import * as Paint from "./render/Paint.ts"
import * as SafeText from "./render/SafeText.ts"
import { withStoredSession } from "./SessionChoice.ts"

const session = Argument.String("session").pipe(
  Argument.withDescription("Session id, id prefix, title, or latest (of this folder)")
)
const run = Flags.makeText("run", "NUMBER", "Only this run, by its number in --list")

/** Layer for undoing changes with the configured environment and the recorded file contents. */
const layer = Layer.unwrap(
  Effect.gen(function* () {
    const home = yield* Home
    const path = yield* Path.Path
    const { layer = CommandEnvironment.layerLocal } = yield* ConfiguredEnvironment.choose(yield* Settings, {
      environment: yield* Environment,
      home
    })
    return FileUndo.layer.pipe(Layer.provide([layer, ChangeContents.layerFile(path.join(home.changes, "contents"))]))
  })
)

/** Services of a command other than the store services. */
type Surroundings = Environment | Home | Output | Settings | Platform

/** Reads the runs of a session's conversation. */
const readHistory = ({ id }: Session) =>
  Effect.flatMap(
    SessionStore.use((store) => store.newest(id)),
    (newest) => Effect.map(ChangeSets.readHistory(newest), (history) => ({ history, newest }))
  )

const findRun = Effect.fnUntraced(function* (history: ChangeSets.History, given: string | undefined) {
  if (given === undefined) return undefined
  const found = history.runs[Number(given) - 1]
  return found === undefined
    ? yield* makeUsageFailure(`--run ${SafeText.toLine(given)}: no such run; pass --list to list them`)
    : found
})

const formatTime = (at: number): string => new Date(at).toISOString().slice(0, 16).replace("T", " ")

const diff = Command.make(
  "diff",
  {
    session,
    run,
    list: Flags.makeSwitch("list", "List the runs instead"),
    json: Flags.makeSwitch("json", "Print JSON")
  },
  Effect.fn("hermes sessions diff")(
    function* ({ json, list, run, session }) {
      const { streams } = yield* Output
      const surroundings = yield* Effect.context<Surroundings>()
      const text = yield* withStoredSession(session, (found) =>
        Effect.gen(function* () {
          const { history } = yield* readHistory(found)
          const checkpoints = ChangeReports.listCheckpoints(history)
          if (list) {
            if (json) return SafeText.toJson(checkpoints, 2)
            return checkpoints.length === 0
              ? "No run yet"
              : renderTable(
                  checkpoints.map(({ added, at, files, number, removed, state, title }) => [
                    String(number),
                    formatTime(at),
                    title,
                    files === 0 ? "" : `${files} files +${added} -${removed}`,
                    state === "done" ? "" : state
                  ])
                )
          }
          const one = yield* findRun(history, run)
          const changes = (
            one === undefined ? history.runs.filter(({ undone }) => undone === undefined) : [one]
          ).flatMap((set) => set.changes)
          const undo = yield* FileUndo.FileUndo
          const files = yield* undo.diffs(changes)
          if (json) return SafeText.toJson(files, 2)
          const room = {
            paint: Paint.make({ color: streams.answer.terminal, hyperlinks: false }),
            columns: undefined,
            most: Number.MAX_SAFE_INTEGER
          }
          return files.length === 0
            ? "No file was changed"
            : files.flatMap((file) => DiffText.renderFile(file, file.path, room)).join("\n")
        }).pipe(Effect.scoped, Effect.provide(layer), Effect.provideContext(surroundings))
      )
      yield* printLine(text)
    },
    provide,
    Effect.provide(Home.layer)
  )
).pipe(Command.withDescription("Show the files that a session changed, and how"))

const undo = Command.make(
  "undo",
  {
    session,
    redo: Flags.makeSwitch("redo", "Redo the last undone run"),
    force: Flags.makeSwitch("force", "Overwrite files that were changed since"),
    keep: Flags.makeSwitch("keep", "Skip files that were changed since")
  },
  Effect.fn("hermes sessions undo")(
    function* ({ force, keep, redo, session }) {
      if (force && keep) return yield* makeUsageFailure("--force and --keep cannot be combined")
      const direction = redo ? "redo" : "undo"
      const surroundings = yield* Effect.context<Surroundings>()
      const { done, plan } = yield* withStoredSession(session, (found) =>
        Effect.gen(function* () {
          const { history, newest } = yield* readHistory(found)
          yield* SessionStore.use((store) => store.acquire(newest))
          const withFiles = { ...history, runs: history.runs.filter(({ changes }) => changes.length > 0) }
          const set = redo ? ChangeSets.findRedoTarget(withFiles) : ChangeSets.findUndoTarget(withFiles)
          if (Option.isNone(set))
            return yield* makeWorkFailure(
              `nothing to ${direction}: ` +
                `${redo ? "no run was undone, or a later one was made since" : "no run changed a file"}`
            )
          const undo = yield* FileUndo.FileUndo
          const plan = yield* undo.plan(set.value, direction)
          if (plan.conflicts.length > 0 && !force && !keep) {
            for (const text of ChangeReports.renderConflicts(plan, { paint: Paint.plain, columns: undefined, most: 0 }))
              yield* printNote(text)
            return yield* makeWorkFailure(
              `nothing was changed: ${plan.conflicts.length} ` +
                `${plan.conflicts.length === 1 ? "file was" : "files were"} changed since. Pass --force to ` +
                `overwrite, or --keep to leave them and ${direction} the rest`
            )
          }
          return { plan, done: yield* undo.apply(plan, { isOverwriting: force }) }
        }).pipe(Effect.scoped, Effect.provide(layer), Effect.provideContext(surroundings))
      )
      for (const text of ChangeReports.renderOutcome(plan, done)) yield* printLine(text)
    },
    provide,
    Effect.provide(Home.layer)
  )
).pipe(Command.withDescription("Undo the file changes of a session's last run (in a conversation: /undo)"))

/** Subcommands of `hermes sessions` that show and undo the changes of files. */
export const commands = [diff, undo] as const
