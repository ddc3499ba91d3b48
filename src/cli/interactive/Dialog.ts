/**
 * What an interactive session knows and can use: the services that it was given, the screen, and which session it is in.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Stream } from "effect/Stream"
import type { Service as BackgroundWork } from "../../agent/BackgroundWork.ts"
import type { Service as Children } from "../../agent/Children.ts"
import type { SessionEnd } from "../../agent/Agent.ts"
import type { RunInput } from "../../agent/RunInput.ts"
import type { Values } from "../../config/Settings.ts"
import type { Service as Auxiliary } from "../../routing/Auxiliary.ts"
import type { RouterStatus } from "../../routing/ModelRouter.ts"
import type { SessionId } from "../../domain/Ids.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { Service as Hooks } from "../../hooks/Hooks.ts"
import type { Conversation } from "../../plugin/Inbox.ts"
import type { Service as SessionStore, Session } from "../../session/SessionStore.ts"
import type { Shell } from "../../tool/builtin/terminal/Shell.ts"
import type { Service as ToolRegistry } from "../../tool/ToolRegistry.ts"
import * as ErrorLine from "../ErrorLine.ts"
import * as SafeText from "../render/SafeText.ts"
import type { Screen } from "../render/Screen.ts"
import type { Verbosity } from "../render/ToolFeed.ts"
import type { Command } from "./SlashCommands.ts"
import type * as Editor from "./Editor.ts"
import type { History } from "./InputHistory.ts"
import type { Injected } from "./InjectedMessages.ts"
import type { Keyboard } from "./Keyboard.ts"
import type { Questions } from "./Questions.ts"
import type { Steering } from "./Steering.ts"
import type { Terminal } from "./TerminalDevice.ts"

/** The agent, whatever its middleware adds to its failures. */
export interface Agent {
  readonly stream: (input: RunInput) => Stream<RunEvent, unknown>
  readonly stop: (sessionId: string) => Effect.Effect<boolean>
  readonly finalize: (sessionId: string, end: SessionEnd) => Effect.Effect<void>
}

/** What is said about the program at the beginning. */
export interface About {
  readonly version: string
  readonly provider: string
  readonly model: string
  readonly cwd: string
}

/** What a session is made of. */
export interface InteractiveOptions {
  readonly agent: Agent
  readonly store: SessionStore
  readonly hooks: Hooks
  readonly registry: ToolRegistry
  readonly terminal: Terminal
  readonly shell: Shell
  readonly history: History
  readonly display: Values["display"]
  readonly about: About
  /** The state of the routes to models, where there is a chain of them. */
  readonly routes?: RouterStatus["Service"]["routes"] | undefined
  /** The session to begin with; `known` is what is stored of one that is resumed. */
  readonly session: { readonly id: SessionId; readonly known: Session | undefined }
  /** The id of the next new session. */
  readonly newSession: Effect.Effect<SessionId>
  /** What every run is asked with besides the prompt: tools, source, limits. */
  readonly input: Omit<RunInput, "prompt" | "sessionId" | "onEvent" | "cwd">
  /** What works besides the turns; nothing can where it is absent. */
  readonly background?: BackgroundWork | undefined
  /** Whether the agent may delegate at all, for `/agents pause`. */
  readonly children?: Pick<Children, "isPaused" | "pause"> | undefined
  /** Does side tasks: gives sessions their titles. */
  readonly auxiliary?: Pick<Auxiliary, "call" | "used"> | undefined
  /** A first prompt, taken literally. */
  readonly seed?: RunInput["prompt"] | undefined
  /** Commands of plugins, after the program's own. */
  readonly commands?: ReadonlyArray<DialogCommand> | undefined
  /** The user's own commands (`quick_commands`). */
  readonly quickCommands?: Values["quickCommands"] | undefined
  /** Lets plugins speak in this conversation as long as it lasts. */
  readonly attach?: ((conversation: Conversation) => Effect.Effect<void, never, Scope.Scope>) | undefined
  /** The directory that a resumed session works in; the program's where undefined. */
  readonly directoryOf?: ((session: Session) => Effect.Effect<string | undefined>) | undefined
  /** The command line that resumes a session, with the flags that it needs. */
  readonly resumeCommand?: ((id: SessionId) => string) | undefined
  /** What hooks are told of where users talk to the agent; `cli` when absent. */
  readonly platform?: string | undefined
}

/** A command of this session. */
export type DialogCommand = Command<Dialog>

/** Which session is talked in. */
export interface Current {
  readonly id: SessionId
  readonly cwd: string
  /** When this program began with it. */
  readonly since: number
  /** Messages that the user sent, before and now. */
  readonly prompts: number
  /** What to call it as soon as there is something of it in the store. */
  readonly title: string | undefined
  /** What was asked last, for `/retry`. */
  readonly lastPrompt: RunInput["prompt"] | undefined
}

/** See the module. What changes is changed by the session's own fiber alone. */
export interface Dialog {
  readonly options: InteractiveOptions
  readonly screen: Screen
  readonly keyboard: Keyboard
  readonly commands: ReadonlyArray<DialogCommand>
  /** What tools want to know of the user. */
  readonly questions: Questions
  /** Messages on their way into the turn. */
  readonly steering: Steering
  /** What plugins want to say. */
  readonly injected: Injected
  current: Current
  verbosity: Verbosity
  /** What is being typed, also while the agent works. */
  editor: Editor.State
  /** When Ctrl+C was pressed last. */
  interruptedAt: number
  /** Lines that were sent while the agent worked. */
  readonly waiting: Array<string>
  /** Does something on the side, until the session is left. */
  readonly aside: (work: Effect.Effect<void>) => Effect.Effect<void>
  /** Lines for the screen; where an answer is being written, between its parts. */
  note: (line: string) => void
}

/** Whole lines on the screen. */
export const say = ({ screen }: Pick<Dialog, "screen">, ...lines: ReadonlyArray<string>): void =>
  screen.say(lines.map((line) => `${line}\n`).join(""))

/** What went wrong, in one line. */
export const complain = (dialog: Pick<Dialog, "screen">, error: unknown): void =>
  say(dialog, dialog.screen.asidePaint.text(SafeText.line(ErrorLine.render(ErrorLine.of(error).line)), "red"), "")

/** The command line that resumes a session. */
export const resumeCommand = ({ options }: Pick<Dialog, "options">, id: SessionId): string =>
  options.resumeCommand?.(id) ?? `hermes --resume ${id}`
