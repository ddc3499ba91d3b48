/** State of the terminal client of a live session: its options, the screen, and the text being typed. */
import * as Effect from "effect/Effect"
import type * as Path from "effect/Path"
import type * as FileSystem from "effect/FileSystem"
import type * as Scope from "effect/Scope"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type { Agent } from "../../../agent/Agent.ts"
import type { BackgroundWork } from "../../../agent/BackgroundWork.ts"
import type { Children } from "../../../agent/Children.ts"
import type { RunInput } from "../../../agent/RunInput.ts"
import type { PermissionMode } from "../../../base/config/PermissionMode.ts"
import type { Values } from "../../../base/config/Settings.ts"
import type { AgentError, ConfigError } from "../../../base/domain/AgentError.ts"
import type { SessionId } from "../../../base/domain/Ids.ts"
import type { MemoryRefused } from "../../../tools/prompt/MemoryStore.ts"
import type { Hooks } from "../../../hooks/Hooks.ts"
import type { OpenQuestion } from "../../../serve/host/HostEvent.ts"
import type { LiveSession, Reader } from "../../../serve/host/LiveSession.ts"
import type { Conversation } from "../../../agent/plugin/MessageInjection.ts"
import type { Auxiliary } from "../../../models/routing/Auxiliary.ts"
import type { RunRecord } from "../../../store/RunRecord.ts"
import type { Session, SessionStore, SessionFolder } from "../../../store/SessionStore.ts"
import type { FileUndo } from "../../../tools/FileUndo.ts"
import type { Service as Places } from "../../../tools/builtin/file/PathRoots.ts"
import type { ToolRegistry } from "../../../tools/ToolRegistry.ts"
import type { Clipboard } from "../Clipboard.ts"
import * as ErrorLine from "../ErrorLine.ts"
import type { Failure } from "../Failure.ts"
import type { ModelChoices } from "../ModelChoices.ts"
import type { ProgramCall } from "../ProgramCalls.ts"
import type { Block } from "../render/Block.ts"
import * as SafeText from "../render/SafeText.ts"
import type { Verbosity } from "../render/ToolFeed.ts"
import type { Transcript } from "../render/Transcript.ts"
import type { FileList } from "./Completions.ts"
import type * as Editor from "./Editor.ts"
import type { History } from "./InputHistory.ts"
import type { NotifyOptions } from "./Notifications.ts"
import type { Pending } from "./Questions.ts"
import { type ArgumentWord, type Command, stay } from "./SlashCommands.ts"
import type { StatusLine } from "./StatusLine.ts"
import type { Keyboard, Terminal } from "./TerminalDevice.ts"
import type { ViState } from "./ViKeys.ts"
import type { ThemeChoice, ThemeOptions } from "./ThemeCommand.ts"

/** Services that a session uses. */
export type SessionServices =
  | Agent
  | Auxiliary
  | BackgroundWork
  | Children
  | ChildProcessSpawner
  | FileSystem.FileSystem
  | FileUndo
  | Hooks
  | Path.Path
  | RunRecord
  | SessionStore
  | ToolRegistry

/** Facts about the program, shown in the header. */
export interface About {
  readonly version: string
  readonly provider: string
  readonly model: string
  readonly cwd: string
  /** The user's home directory, which is written as `~`. */
  readonly userHome?: string | undefined
}

/** Values of a session. Its services come from the Context. */
export interface InteractiveOptions {
  readonly terminal: Terminal
  readonly history: History
  readonly display: Values["display"]
  readonly about: About
  /** The first session. `known` is the stored session if it is resumed. */
  readonly session: { readonly id: SessionId; readonly known: Session | undefined }
  /** Folder in which `latest` is searched; `undefined` for all folders. */
  readonly folder?: SessionFolder | undefined
  /** Creates the id of the next new session. */
  readonly newSession: Effect.Effect<SessionId>
  /** Run options besides the prompt: tools, source, limits. */
  readonly input: Omit<RunInput, "prompt" | "sessionId" | "onEvent" | "cwd">
  /** Adds the content that the user selected for all sessions to the first prompt of each session. */
  readonly preload?: ((session: SessionId, prompt: RunInput["prompt"]) => Effect.Effect<RunInput["prompt"]>) | undefined
  /** Directories of the user and the agent. Credentials in them are not attached to messages. */
  readonly places?: Places | undefined
  /** Commands from plugins, listed after the program's own commands. */
  readonly commands?: ReadonlyArray<DialogCommand> | undefined
  /** Custom commands of the user (`quick_commands`). */
  readonly quickCommands?: Values["quickCommands"] | undefined
  /**
   * While the session lasts, passes text printed by plugins and libraries to a function. The text contains no secrets,
   * and is split at arbitrary positions.
   */
  readonly printed?: ((show: (text: string) => void) => Effect.Effect<void, never, Scope.Scope>) | undefined
  /** Opens text in the user's editor; `undefined` if no editor is available. */
  readonly editText?: ((text: string) => Effect.Effect<string, Failure>) | undefined
  /** The initial mode. Default: the mode of the approvals. */
  readonly mode?: PermissionMode | undefined
  /** Runs commands of the program. */
  readonly program?: ProgramCall | undefined
  /** The agent's home directory, in which commands write files. */
  readonly home?: string | undefined
  /** Stores a note from the user in the memory and returns the location of the note. */
  readonly remember?: ((text: string) => Effect.Effect<string, ConfigError | MemoryRefused>) | undefined
  /** The clipboard on this machine. */
  readonly clipboard?: Clipboard | undefined
  /** Available themes; `undefined` for only the dark theme. */
  readonly theme?: ThemeOptions | undefined
  /** Available models; `undefined` if the model cannot be changed. */
  readonly models?: ModelChoices | undefined
  /** Notifications and the window title; `undefined` for neither. */
  readonly notify?: NotifyOptions | undefined
  /** Settings of the status line; `undefined` for no status line. */
  readonly status?: Pick<StatusLine, "compactAt" | "home"> | undefined
  /** Connects plugins to this conversation until the scope closes, so that they can send messages. */
  readonly attach?: ((conversation: Conversation) => Effect.Effect<void, never, Scope.Scope>) | undefined
}

/** A command of this session. */
export type DialogCommand = Command<Dialog, SessionServices>

/** A sent line: as shown on the screen, with marks for long pastes, and as full text. */
export interface TypedLine {
  readonly shown: string
  readonly text: string
}

/** Prints lines from other sources: below the shown text or, while an answer is being written, between its parts. */
export interface Feed {
  put: (block: Block) => void
}

/** A question that a turn is waiting for. */
export type TurnQuestion = Exclude<OpenQuestion, { readonly _tag: "Plan" }>

/** State of the terminal client. It is changed by the terminal's fiber and by the fiber that shows a turn. */
export interface Dialog {
  readonly options: InteractiveOptions
  readonly live: LiveSession
  /** The events of the live session. */
  readonly reader: Reader
  readonly screen: Transcript
  readonly keyboard: Keyboard
  readonly commands: ReadonlyArray<DialogCommand>
  readonly feed: Feed
  readonly statusLine: StatusLine | undefined
  /** Files that can be named after `@`. */
  readonly files: FileList
  /** Finds the pictures that the typed line would attach. */
  readonly pictures: (text: string, cwd: string, places?: Places) => Effect.Effect<ReadonlyArray<string>>
  /** Returns the words that complete the argument of a command. */
  readonly argumentWords: (command: DialogCommand) => Effect.Effect<ReadonlyArray<ArgumentWord>>
  verbosity: Verbosity
  /** Themes; `undefined` if the terminal has no colours. */
  readonly themes: ThemeChoice | undefined
  /** State of the vi keys; `undefined` with Emacs keys. */
  vi: ViState | undefined
  /** Shell commands run by the user, with their output, sent with the next message. */
  shared: ReadonlyArray<string>
  /** The plan that waits for the user's decision. */
  plan: Extract<OpenQuestion, { readonly _tag: "Plan" }> | undefined
  /** Typed text, at the prompt and during a turn. */
  editor: Editor.State
  /** Time of the last Ctrl+C. */
  interruptedAt: number
  /** Lines sent while work was in progress that are not messages, and all lines after them. */
  readonly waiting: Array<TypedLine>
  /** Lines of the queued messages, by the ids of the messages. */
  readonly sent: Map<string, TypedLine>
  /** Messages that are already on the screen. */
  readonly echoed: Set<string>
  /** Open questions of the turn, oldest first. */
  questions: ReadonlyArray<TurnQuestion>
  /** The question that is currently shown. */
  asked: Pending | undefined
}

/** Shows a line from the program. While an answer is being written, the line appears between its parts. */
export const showNote = ({ feed }: Pick<Dialog, "feed">, line: string): void =>
  feed.put({ _tag: "Lines", text: `${line}\n`, place: "turn" })

/**
 * Maximum length of a line that the history stores completely, in characters. A longer line is stored with its paste
 * marks.
 */
const mostRemembered = 10_000

/** Adds a line to the history. A shell command is remembered only until the session ends. */
export const rememberLine = ({ options }: Pick<Dialog, "options">, { shown, text }: TypedLine): Effect.Effect<void> =>
  options.history.add(text.length > mostRemembered ? shown : text, { keep: !text.startsWith("!") })

/** Prints whole lines. */
export const printLines = ({ screen }: Pick<Dialog, "screen">, ...lines: ReadonlyArray<string>): void =>
  screen.say(lines.map((line) => `${line}\n`).join(""))

/** Prints an error in one line. */
export const printError = (dialog: Pick<Dialog, "screen">, error: unknown): void =>
  printLines(
    dialog,
    dialog.screen.asidePaint.text(SafeText.toLine(ErrorLine.render(ErrorLine.fromError(error).line)), "red"),
    ""
  )

/** Formats the command line that resumes a session. */
export const formatResumeCommand = (id: SessionId): string => `hermes --resume ${id}`

/** Creates a command that ends at the prompt. A failure is printed as a line. */
export const makeCommandAction =
  (
    work: (argument: string, dialog: Dialog) => Effect.Effect<void, AgentError, SessionServices>
  ): DialogCommand["run"] =>
  (argument, dialog) =>
    work(argument, dialog).pipe(
      Effect.catch((error) => Effect.sync(() => printError(dialog, error))),
      Effect.as(stay)
    )

/** Creates the words that complete an argument, with their descriptions. */
export const makeArgumentWords =
  (meanings: Readonly<Record<string, string>>): DialogCommand["words"] =>
  () =>
    Effect.succeed(Object.entries(meanings).map(([label, detail]) => ({ label, detail, value: label })))
