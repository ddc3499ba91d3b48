/**
 * Session commands for the files changed by its turns: `/diff`, `/undo`, `/redo` and `/checkpoints`.
 *
 * **Details**
 *
 * Undoing a turn continues the conversation in a new session with the messages before that turn, and restores the
 * files. `files` or `conversation` undoes only one of the two. Nothing is lost: `/redo` reverts the undo, and `/resume`
 * finds the previous session.
 *
 * **Gotchas**
 *
 * The model is not informed of `/undo files`; its file tools detect files that changed since they were read.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { AgentError } from "../../../base/domain/AgentError.ts"
import * as ChangeSets from "../../../store/ChangeSets.ts"
import type * as ChangeUndo from "../../../store/ChangeUndo.ts"
import * as SessionFork from "../../../store/SessionFork.ts"
import { SessionStore } from "../../../store/SessionStore.ts"
import { FileUndo } from "../../../tools/FileUndo.ts"
import * as ChangeReports from "../ChangeReports.ts"
import * as DiffText from "../render/DiffText.ts"
import * as SafeText from "../render/SafeText.ts"
import * as Width from "../render/Width.ts"
import {
  type Dialog,
  type DialogCommand,
  makeArgumentWords,
  makeCommandAction,
  printLines,
  type SessionServices
} from "./Dialog.ts"
import * as Overview from "./Overview.ts"
import * as Picker from "./Picker.ts"

/** Creates a command during which no turn starts. */
const makeHeldAction = (
  work: (argument: string, dialog: Dialog) => Effect.Effect<void, AgentError, SessionServices>
): DialogCommand["run"] =>
  makeCommandAction((argument, dialog) => Effect.scoped(Effect.andThen(dialog.live.hold, work(argument, dialog))))

/** Maximum number of lines printed by `/diff`. */
const diffLines = 2_000

const makeRoom = ({ screen }: Dialog, most: number): DiffText.Room => ({
  paint: screen.asidePaint,
  columns: screen.size().columns,
  most
})

const readHistory = ({ live }: Dialog) =>
  Effect.flatMap(live.state, ({ session }) => ChangeSets.readHistory(session.id))

const diff = makeHeldAction(
  Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
    const { runs } = yield* readHistory(dialog)
    const changed = runs.filter(({ changes, undone }) => changes.length > 0 && undone === undefined)
    const last = changed.at(-1)
    const number = Number(argument)
    const chosen =
      argument === "" || argument === "turn"
        ? last === undefined
          ? []
          : [last]
        : argument === "session"
          ? changed
          : runs.slice(number - 1, number)
    if (argument !== "" && argument !== "turn" && argument !== "session" && runs[number - 1] === undefined) {
      return printLines(
        dialog,
        `Use /diff turn (the last one that changed files), /diff session, or /diff with a number of /checkpoints.`,
        ""
      )
    }
    const files = yield* FileUndo.use((undo) => undo.diffs(chosen.flatMap(({ changes }) => changes)))
    if (files.length === 0) return printLines(dialog, "No file was changed.", "")
    const directory = chosen[0]?.cwd
    let left = diffLines
    for (const file of files) {
      const lines = DiffText.renderFile(
        file,
        DiffText.toRelativeName(directory, file.path),
        makeRoom(dialog, Math.max(0, left)),
        "`hermes sessions diff` shows all of it"
      )
      left -= lines.length
      printLines(dialog, ...lines, "")
    }
  })
)

const words = {
  files: ["files"],
  conversation: ["conversation", "chat"],
  force: ["force", "overwrite"],
  keep: ["keep"]
} as const

/** Arguments of an undo. */
interface UndoRequest {
  readonly files: boolean
  readonly conversation: boolean
  readonly conflicts: "ask" | "force" | "keep"
  /** Number of the run whose beginning is restored. */
  readonly number: number | undefined
}

/** Parses the arguments; returns `undefined` if they are invalid. */
const parseArguments = (argument: string): UndoRequest | undefined => {
  const given = argument
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "")
  const hasWord = (list: ReadonlyArray<string>): boolean => given.some((word) => list.includes(word))
  const numbers = given.filter((word) => /^\d+$/.test(word))
  if (
    given.some(
      (word) =>
        !Object.values(words)
          .flat()
          .some((known: string) => known === word) && !/^\d+$/.test(word)
    ) ||
    numbers.length > 1
  )
    return undefined
  const one = hasWord(words.files) !== hasWord(words.conversation)
  return {
    files: !one || hasWord(words.files),
    conversation: !one || hasWord(words.conversation),
    conflicts: hasWord(words.force) ? "force" : hasWord(words.keep) ? "keep" : "ask",
    number: numbers[0] === undefined ? undefined : Number(numbers[0])
  }
}

const describeUsage = (name: "undo" | "redo"): string =>
  `/${name} takes files or conversation for one of both, force or keep for files that were changed ` +
  `since${name === "undo" ? ", and a number of /checkpoints to go back to" : ""}.`

/** Asks about files that were changed since the run. Returns `undefined` if nothing may be changed. */
const askAbout = (dialog: Dialog, { conflicts, direction, steps }: ChangeUndo.Plan) => {
  const [them, rest] = [conflicts.length === 1 ? "it" : "them", steps.length]
  return Picker.choose<"force" | "keep" | undefined>(dialog, {
    title: conflicts.length === 1 ? "1 file was changed since" : `${conflicts.length} files were changed since`,
    choices: [
      { label: "Change nothing", value: undefined },
      {
        label: `Leave ${them}`,
        detail:
          rest > 0
            ? `${direction} the rest: ${rest === 1 ? "1 file" : `${rest} files`}`
            : "and the conversation changes as requested",
        value: "keep"
      },
      { label: `Overwrite ${them}`, detail: "later changes are lost", value: "force" }
    ]
  })
}

/** Undoes or redoes the file changes of a run. Returns false if the user decides to change nothing. */
export const moveFiles = Effect.fnUntraced(function* (
  dialog: Dialog,
  set: ChangeSets.ChangeSet,
  direction: ChangeUndo.Plan["direction"],
  conflicts: UndoRequest["conflicts"]
) {
  const undo = yield* FileUndo
  const plan = yield* undo.plan(set, direction)
  const isOpen = plan.conflicts.length > 0 && conflicts === "ask"
  if (isOpen) printLines(dialog, ...ChangeReports.renderConflicts(plan, makeRoom(dialog, 0)), "")
  const decided = isOpen ? yield* askAbout(dialog, plan) : conflicts
  if (decided === undefined) {
    printLines(dialog, dialog.screen.asidePaint.text("Nothing was changed.", "bold"), "")
    return false
  }
  const done = yield* undo.apply(plan, { isOverwriting: decided === "force" })
  printLines(
    dialog,
    ...ChangeReports.renderOutcome(plan, done).map((line) =>
      Width.cut(line, Math.max(40, dialog.screen.size().columns * 3))
    )
  )
  return true
})

/** Returns the title of the copy of a session after an undo: `Title (after undo)`, then `Title (after undo 2)`. */
const nameUndoCopy = (title: string): string => {
  const [, base = title, number = "1"] = /^([^]*) \(after undo(?: (\d+))?\)$/u.exec(title) ?? []
  return base === title ? `${title} (after undo)` : `${base} (after undo ${Number(number) + 1})`
}

/** Continues in a new session that has the messages of another session before a position. */
export const forkAt = Effect.fnUntraced(function* (
  dialog: Dialog,
  from: ChangeSets.ChangeSet["sessionId"],
  position: number
) {
  const store = yield* SessionStore
  const session = Option.getOrUndefined(yield* store.get(from))
  if (session === undefined)
    return printLines(dialog, `The session ${from} no longer exists; the conversation is unchanged.`, "")
  const history = yield* store.messages(from, { from: 0, to: position })
  const copy = { history, originals: history, position, changed: ["undo"], source: session.source }
  const { title } = session
  const made = yield* title === undefined
    ? SessionFork.fork(session, copy)
    : Effect.catch(SessionFork.fork(session, { ...copy, title: nameUndoCopy(title) }), () =>
        // The title is taken by an earlier copy.
        SessionFork.fork(session, copy)
      )
  yield* dialog.live.resume(made.id)
  printLines(
    dialog,
    dialog.screen.asidePaint.text(`The conversation continues from before that turn, in session ${made.id}.`, "dim"),
    ""
  )
})

const undo = makeHeldAction(
  Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
    const wanted = parseArguments(argument)
    if (wanted === undefined) return printLines(dialog, describeUsage("undo"), "")
    const history = yield* readHistory(dialog)
    const kept = wanted.conversation
      ? history
      : { ...history, runs: history.runs.filter(({ changes }) => changes.length > 0) }
    const last = Option.getOrUndefined(ChangeSets.findUndoTarget(kept))
    const target = wanted.number === undefined ? last : history.runs[wanted.number - 1]
    if (last === undefined || target === undefined) {
      return printLines(
        dialog,
        wanted.number === undefined
          ? "Nothing to undo."
          : `There is no turn ${wanted.number}. Type /checkpoints for a list.`,
        ""
      )
    }
    const sets = history.runs.filter(({ at, undone }) => at >= target.at && undone === undefined).toReversed()
    for (const set of sets) {
      if (wanted.files && !(yield* moveFiles(dialog, set, "undo", wanted.conflicts))) return
    }
    if (!wanted.conversation || target.position === undefined) return printLines(dialog, "")
    // Turns whose files are left unchanged also count as undone.
    if (!wanted.files) for (const set of sets) yield* FileUndo.use((undo) => undo.leave(set))
    yield* forkAt(dialog, target.sessionId, target.position)
  })
)

const redo = makeHeldAction(
  Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
    const wanted = parseArguments(argument)
    if (wanted === undefined || wanted.number !== undefined) return printLines(dialog, describeUsage("redo"), "")
    const history = yield* readHistory(dialog)
    const set = Option.getOrUndefined(ChangeSets.findRedoTarget(history))
    if (set === undefined)
      return printLines(dialog, "Nothing to redo: no turn was undone, or a newer turn followed.", "")
    if (wanted.files && !(yield* moveFiles(dialog, set, "redo", wanted.conflicts))) return
    const isLeft = history.left.includes(set)
    if (!wanted.conversation || !isLeft) return printLines(dialog, "")
    const next = history.left.find(
      ({ at, position, sessionId }) => sessionId === set.sessionId && at > set.at && position !== undefined
    )
    if (next?.position !== undefined) return yield* forkAt(dialog, set.sessionId, next.position)
    yield* dialog.live.resume(set.sessionId)
    printLines(dialog, dialog.screen.asidePaint.text(`Back in session ${set.sessionId}.`, "dim"), "")
  })
)

const checkpoints = makeHeldAction(
  Effect.fnUntraced(function* (_: string, dialog: Dialog) {
    const history = yield* readHistory(dialog)
    const { paint } = makeRoom(dialog, 0)
    const now = yield* Clock.currentTimeMillis
    const list = ChangeReports.listCheckpoints(history)
    if (list.length === 0) return printLines(dialog, "No turns yet.", "")
    const lines = list.map(({ added, at, files, number, removed, state, title }) => {
      const facts = [
        ...(files === 0
          ? []
          : [
              `${files === 1 ? "1 file" : `${files} files`} ${DiffText.formatSums({ added, removed }, paint)}`.trimEnd()
            ]),
        ...(state === "done" ? [] : [paint.text(state === "undone" ? "undone" : "left behind", "yellow")]),
        paint.text(Overview.formatAgo(now - at), "dim")
      ]
      return `${String(number).padStart(3)}  ${SafeText.toLine(title)}  ${facts.join(" · ")}`
    })
    printLines(
      dialog,
      ...lines,
      paint.text("/undo N goes back to the beginning of turn N; /diff N shows what it changed.", "dim"),
      ""
    )
  })
)

const parts = { files: "only the files", conversation: "only the messages" }

/** Commands of the dialogue that show and undo the changes of files. */
export const commands: ReadonlyArray<DialogCommand> = [
  {
    name: "diff",
    usage: "[turn|session|N]",
    help: "Show the file changes of the last turn, or of the session",
    words: makeArgumentWords({ turn: "the last turn that changed files", session: "all turns" }),
    run: diff
  },
  {
    name: "undo",
    usage: "[files|conversation] [N]",
    help: "Undo the last turn: its files, its messages, or both",
    words: makeArgumentWords(parts),
    run: undo
  },
  {
    name: "redo",
    usage: "[files|conversation]",
    help: "Redo the turn that was undone last",
    words: makeArgumentWords(parts),
    run: redo
  },
  { name: "checkpoints", help: "List the turns with the files that they changed", run: checkpoints }
]
