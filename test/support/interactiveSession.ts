// Drives an interactive session through its ports: keys in, a screen out.
import * as NodeServices from "@effect/platform-node/NodeServices"
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as TestClock from "effect/testing/TestClock"
import * as InputHistory from "../../src/program/cli/interactive/InputHistory.ts"
import * as Interactive from "../../src/program/cli/interactive/Interactive.ts"
import type { TerminalEvent } from "../../src/program/cli/interactive/TerminalDevice.ts"
import * as Paint from "../../src/program/cli/render/Paint.ts"
import * as Theme from "../../src/program/cli/render/Theme.ts"
import * as Ids from "../../src/base/domain/Ids.ts"
import type { Hook } from "../../src/hooks/Hook.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import * as Beside from "./interactiveServices.ts"
import * as Model from "./interactiveModel.ts"
import { display } from "./interactiveSettings.ts"
import * as Virtual from "./virtualTerminal.ts"
import { longestWaitMillis } from "./waiting.ts"

export interface Driver {
  readonly terminal: Virtual.VirtualTerminal
  readonly history: InputHistory.History
  readonly store: SessionStore["Service"]
  readonly model: ReturnType<typeof Model.make>
  /** Sends what a terminal would send. */
  readonly type: (text: string) => Effect.Effect<void>
  readonly send: (event: TerminalEvent) => Effect.Effect<void>
  /** Nobody can type any more. */
  readonly hangUp: Effect.Effect<void>
  /** The screen, as soon as the text is on it so many times. */
  readonly until: (text: string, times?: number) => Effect.Effect<string>
  /** The same while time goes by. */
  readonly later: (text: string, times?: number) => Effect.Effect<string>
  readonly screen: () => string
  /** The exit code. */
  readonly left: Effect.Effect<number>
}

const breathe = Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 2)))

const count = (text: string, part: string): number => text.split(part).length - 1

/** What a test changes of a session. */
export interface Changes
  extends Partial<Omit<Interactive.InteractiveOptions, "display" | "terminal" | "session">>, Beside.Given {
  readonly display?: Parameters<typeof display>[0] | undefined
  readonly listeners?: ReadonlyArray<Hook<never>> | undefined
  readonly sessionId?: string | undefined
  readonly columns?: number | undefined
  readonly isLinear?: boolean | undefined
  readonly color?: boolean | undefined
  /** Before the session begins. */
  readonly prepare?: ((store: SessionStore["Service"]) => Effect.Effect<unknown, unknown>) | undefined
}

/** Starts a session, lets `body` drive it, and takes it down. */
export const session = <A, E, R>(
  {
    auxiliary,
    background,
    children,
    color = false,
    columns = 80,
    isLinear = false,
    display: changedDisplay,
    listeners = [],
    prepare,
    routes,
    sessionId,
    ...changes
  }: Changes,
  body: (driver: Driver) => Effect.Effect<A, E, R>
) =>
  Effect.gen(function* () {
    const model = Model.make(0)
    const terminal = Virtual.make(columns, 60)
    const events = yield* Queue.unbounded<TerminalEvent, Cause.Done>()
    return yield* Effect.gen(function* () {
      const store = yield* SessionStore
      if (prepare !== undefined) yield* Effect.orDie(prepare(store))
      const id = Ids.SessionId.make(sessionId ?? "20260101_000000_aaaaaa")
      const known = yield* Effect.orDie(store.get(id))
      let next = 0
      const history = changes.history ?? Beside.history()
      const fiber = yield* Effect.forkScoped(
        Interactive.run({
          about: { version: "0.1.0", provider: "fake", model: "fake-1", cwd: "/tmp" },
          newSession: Effect.sync(() => Ids.SessionId.make(`20260101_00000${++next}_bbbbbb`)),
          input: { source: "cli" },
          ...changes,
          history,
          display: display(changedDisplay),
          session: { id, known: known._tag === "Some" ? known.value : undefined },
          terminal: {
            write: terminal.write,
            size: () => ({ columns: terminal.columns, rows: terminal.rows }),
            paint: color ? Paint.make({ color, hyperlinks: false, theme: Theme.makeCurrentTheme() }) : Paint.plain,
            events,
            suspend: Effect.void,
            isLinear,
            alternate: (isOn) => terminal.write(isOn ? "\u001b[?1049h" : "\u001b[?1049l"),
            lend: (work) => work
          }
        })
      )
      const screen = () => terminal.lines().join("\n")
      const until = Effect.fnUntraced(function* (text: string, times = 1) {
        const deadline = performance.now() + longestWaitMillis
        while (count(screen(), text) < times) {
          if (performance.now() > deadline)
            throw new Error(`${JSON.stringify(text)} did not come; the screen shows:\n${screen()}`)
          yield* breathe
        }
        return screen()
      })
      const later = (text: string, times?: number) =>
        Effect.raceFirst(until(text, times), Effect.forever(Effect.andThen(TestClock.adjust("1 second"), breathe)))
      return yield* body({
        terminal,
        history,
        store,
        model,
        type: (text) => Effect.asVoid(Queue.offer(events, { _tag: "Input", text })),
        send: (event) => Effect.asVoid(Queue.offer(events, event)),
        hangUp: Effect.asVoid(Queue.end(events)),
        until,
        later,
        screen,
        left: Fiber.join(fiber)
      })
    }).pipe(
      Effect.scoped,
      // On a slow machine the clock's own warning would stand on the screen.
      Effect.provide(TestClock.layer({ warningDelay: "1 hour" })),
      Effect.provide(
        Layer.mergeAll(
          Model.layer(model, listeners),
          Beside.layer({ auxiliary, background, children, routes }),
          NodeServices.layer
        )
      )
    )
  })
