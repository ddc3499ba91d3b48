/**
 * `/copy` and `/fork`: copies an answer to the clipboard, and copies the conversation to a new session.
 *
 * The text is written to the terminal (OSC 52), which also sets the clipboard over ssh, and to the clipboard program on
 * this machine, if available.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import type * as Prompt from "effect/ai/Prompt"
import * as Redaction from "../../../base/domain/Redaction.ts"
import * as SessionFork from "../../../store/SessionFork.ts"
import { SessionStore } from "../../../store/SessionStore.ts"
import * as Title from "../../../store/Title.ts"
import * as SafeText from "../render/SafeText.ts"
import { type Dialog, type DialogCommand, makeCommandAction, printLines } from "./Dialog.ts"

/** Returns the text of each answer, newest first. Messages that only call tools are skipped. */
const listAnswers = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<string> =>
  messages
    .flatMap((message) => {
      if (message.role !== "assistant") return []
      const text =
        typeof message.content === "string"
          ? message.content
          : message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n")
      return text.trim() === "" ? [] : [text]
    })
    .toReversed()

/** Returns the last code block in the text. */
const findCodeBlock = (text: string): string | undefined =>
  Array.from(text.matchAll(/^(`{3,}|~{3,})[^\n]*\n([\s\S]*?)^\1[ \t]*$/gm)).at(-1)?.[2]

/** Maximum number of bytes that terminals accept for the clipboard. */
const mostForTerminal = 74_994

/**
 * Creates the sequence that copies text to the clipboard. In `tmux` the sequence is wrapped so that it reaches the
 * outer terminal.
 */
const makeClipboardSequence = (text: string, isInTmux: boolean): string => {
  const sequence = `\u001b]52;c;${Base64.encode(text)}\u0007`
  return isInTmux ? `\u001bPtmux;\u001b${sequence}\u001b\\` : sequence
}

const copy = makeCommandAction(
  Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
    const number = /^\d+$/.test(argument) ? Number(argument) : 1
    if (argument !== "" && argument !== "code" && !/^[1-9]\d*$/.test(argument)) {
      return printLines(
        dialog,
        "/copy takes nothing (the last answer), code (its last block of code), or a number (2 is the answer before).",
        ""
      )
    }
    const answer = listAnswers(yield* dialog.live.messages)[number - 1]
    if (answer === undefined)
      return printLines(dialog, number === 1 ? "No answer to copy yet." : `There are fewer than ${number} answers.`, "")
    const chosen = argument === "code" ? findCodeBlock(answer) : answer
    if (chosen === undefined) return printLines(dialog, "The last answer has no code block.", "")
    const text = Redaction.redactText(SafeText.toPlainText(chosen))
    const { clipboard, terminal } = dialog.options
    const isTaken = (text.length * 4) / 3 <= mostForTerminal
    if (isTaken) terminal.write(makeClipboardSequence(text, clipboard?.isInTmux === true))
    const program = clipboard === undefined ? undefined : yield* clipboard.put(text)
    const ways = [...(isTaken ? ["the terminal"] : []), ...(program === undefined ? [] : [program])]
    printLines(
      dialog,
      ways.length === 0
        ? `The text has ${text.length} characters, too many for the terminal, and there is no clipboard ` +
            "program (wl-copy, xclip, xsel, pbcopy). Use /export to write it to a file."
        : `Copied ${text.length} characters by ${ways.join(" and ")}.`,
      ""
    )
  })
)

const fork = makeCommandAction(
  Effect.fnUntraced(function* (argument: string, dialog: Dialog) {
    const session = yield* dialog.live.known
    if (session === undefined) return printLines(dialog, "Nothing to fork: the session has no messages yet.", "")
    const title = argument === "" ? undefined : yield* Title.clean("fork", argument)
    const history = yield* SessionStore.use((store) => store.messages(session.id))
    const made = yield* SessionFork.fork(session, {
      history,
      originals: history,
      position: history.length,
      changed: [],
      source: session.source,
      title
    })
    yield* dialog.live.resume(made.id)
    printLines(
      dialog,
      `The conversation continues in session ${made.id}.`,
      dialog.screen.asidePaint.text(`The original is unchanged: /resume ${session.id}`, "muted"),
      ""
    )
  })
)

/** Commands of the dialogue that copy an answer and fork the session. */
export const commands: ReadonlyArray<DialogCommand> = [
  {
    name: "copy",
    usage: "[code|N]",
    help: "Copy the last answer, or its last code block",
    words: () => Effect.succeed([{ label: "code", detail: "the last code block", value: "code" }]),
    run: copy
  },
  { name: "fork", usage: "[TITLE]", help: "Continue in a copy of this session", run: fork }
]
