// The interactive session, driven through its ports.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/testing/TestClock"
import * as Prompt from "effect/ai/Prompt"
import * as Cost from "../../../src/base/domain/Cost.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import type { Conversation } from "../../../src/agent/plugin/MessageInjection.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as CompactionPort from "../../../src/models/routing/CompactionPort.ts"
import type * as Auxiliary from "../../../src/models/routing/Auxiliary.ts"
import type { Service as SessionStore } from "../../../src/store/SessionStore.ts"
import { textAnswer } from "../../support/fakeModel.ts"
import { session } from "../../support/interactiveSession.ts"

const ctrlC = "\u0003"
const escape = "\u001b"
const ctrlD = "\u0004"

describe("Interactive session", () => {
  it.effect("begins with what it is, and asks", () =>
    session({}, ({ left, type, until }) =>
      Effect.gen(function* () {
        const screen = yield* until("›")
        assert.deepStrictEqual(screen.split("\n"), [
          "hermes 0.1.0 · fake-1 by fake",
          "/tmp",
          "session 20260101_000000_aaaaaa · /help for commands, Ctrl+D to exit",
          "",
          "›"
        ])
        yield* type(ctrlD)
        assert.strictEqual(yield* left, 0)
      })
    )
  )

  it.effect("sends a line to the agent and shows the answer", () =>
    session({}, ({ left, model, screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("hello\r")
        yield* until("You said: hello")
        yield* until("›", 2)
        assert.include(screen(), "› hello\n\nYou said: hello\n\n›")
        assert.strictEqual(model.asked.length, 1)
        yield* type("/quit\r")
        assert.strictEqual(yield* left, 0)
        assert.include(
          screen(),
          [
            "Resume this session with:",
            "  hermes --resume 20260101_000000_aaaaaa",
            "",
            "Session   20260101_000000_aaaaaa",
            "Time      0 ms",
            "Messages  2 messages, 1 by you, 0 tool calls"
          ].join("\n")
        )
      })
    )
  )

  it.effect(
    "/compact goes on in a session with a shorter conversation and says how much shorter; where nothing can be left out it says so",
    () => {
      const kept: Array<number | undefined> = []
      const compaction: CompactionPort.Service = {
        compact: ({ focus, keepExchanges, messages }) =>
          Effect.succeed(
            kept.push(keepExchanges) > 0 && messages.length < 4
              ? messages
              : [
                  ...messages.slice(0, 1),
                  Prompt.userMessage({ content: [Prompt.textPart({ text: `note about ${focus ?? "everything"}` })] }),
                  ...messages.slice(-1)
                ]
          )
      }
      return session({}, ({ left, model, screen, type, until }) =>
        Effect.gen(function* () {
          yield* type("/compact\r")
          yield* until("Nothing to compact: the first and the last messages are always kept")
          yield* type("hello\r")
          yield* until("You said: hello")
          yield* type("again\r")
          yield* until("You said: again")
          yield* type("/compress the harbour\r")
          yield* until("Compacted from 4 messages")
          assert.match(
            screen(),
            /Compacted from 4 messages \(about \d+ tokens\) to 2 messages \(about \d+ tokens\)\.\nSession \d{8}_\d{6}_[0-9a-f]{6}/
          )
          yield* type("/expand\r")
          yield* until("3 messages left out of the conversation:")
          assert.match(
            screen().slice(screen().indexOf("3 messages left out")),
            /› hello\n {2}You said: hello\n\n› again/
          )
          yield* type("/expand agai*\r")
          yield* until('3 messages left out of the conversation, 1 message around "agai*":')
          yield* type("/expand nowhere\r")
          yield* until("No compacted message matches.")
          yield* type("/compact here 2\r")
          yield* until("Nothing to compact: the first and the last messages are always kept", 2)
          assert.deepStrictEqual(kept, [undefined, 2])
          yield* type("and now\r")
          yield* until("You said: and now")
          assert.include(JSON.stringify(model.asked.at(-1)), "note about the harbour")
          assert.notInclude(JSON.stringify(model.asked.at(-1)), "hello")
          yield* type("/quit\r")
          assert.strictEqual(yield* left, 0)
          assert.notInclude(screen().slice(screen().indexOf("Resume this session")), "20260101_000000_aaaaaa")
        })
      ).pipe(Effect.provideService(CompactionPort.CompactionPort, compaction))
    }
  )

  it.effect("shows what tools do, and how they fail", () =>
    session({}, ({ type, until }) =>
      Effect.gen(function* () {
        yield* type("use tools\r")
        const screen = yield* until("Both slept well.")
        assert.include(screen, "┊ ✓ nap anna · 0 ms")
        assert.include(screen, "┊ ✗ nap broken · 0 ms · Error executing tool 'nap': no bed")
      })
    )
  )

  it.effect("Ctrl+C stops the turn, keeps what was said, and the next line goes on", () =>
    session({}, ({ left, model, screen, store, type, until }) =>
      Effect.gen(function* () {
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* type(ctrlC)
        yield* until("Stopped.")
        assert.include(screen(), "Let me think about **that\n\nStopped. The work so far is kept; type how to continue.")
        yield* type("next\r")
        yield* until("You said: next")
        const kept = yield* store.messages(SessionId.make("20260101_000000_aaaaaa"))
        assert.deepStrictEqual(
          kept.map(({ role }) => role),
          ["user", "assistant", "user", "assistant"]
        )
        assert.strictEqual(model.asked.length, 2)
        yield* type(ctrlD)
        assert.strictEqual(yield* left, 0)
      })
    )
  )

  for (const [name, key] of [
    ["Ctrl+C", ctrlC],
    ["Esc", escape]
  ] as const) {
    it.effect(`${name} puts what waits back into the prompt, and starts none of it`, () =>
      session({}, ({ model, screen, type, until }) =>
        Effect.gen(function* () {
          yield* type("hang\r")
          yield* until("Let me think about")
          yield* type("first\r")
          yield* until("next: first")
          yield* type("second\r")
          yield* until("next: second")
          yield* type("half a li")
          yield* type(key)
          // Long enough for a lone escape to be a key.
          yield* TestClock.adjust("1 second")
          yield* until("Stopped.")
          yield* type("ne")
          yield* until("half a line")
          assert.notInclude(screen().slice(screen().indexOf("Stopped.")), "You said")
          assert.lengthOf(model.asked, 1)
          yield* type("\r")
          yield* until("You said: first")
          assert.include(JSON.stringify(model.asked.at(-1)), "first\\nsecond\\nhalf a line")
          assert.lengthOf(model.asked, 2)
        })
      )
    )
  }

  it.effect("a second Ctrl+C within two seconds leaves with 130", () =>
    session({}, ({ left, screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* type(ctrlC + ctrlC)
        assert.strictEqual(yield* left, 130)
        assert.include(screen(), "hermes --resume 20260101_000000_aaaaaa")
      })
    )
  )

  it.effect("at the prompt Ctrl+C clears the line, and twice leaves with 130", () =>
    session({}, ({ left, screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("wrong")
        yield* until("› wrong")
        yield* type(ctrlC)
        yield* type("right")
        yield* until("› right")
        assert.notInclude(screen(), "wrong")
        yield* type(ctrlC)
        yield* type(ctrlC)
        yield* until("Press Ctrl+C again or Ctrl+D to exit")
        yield* TestClock.adjust("3 seconds")
        yield* type(ctrlC)
        yield* type(ctrlC)
        assert.strictEqual(yield* left, 130)
      })
    )
  )

  it.effect("several lines are one prompt: pasted, or by Alt+Enter, Ctrl+J and a backslash", () =>
    session({}, ({ model, type, until }) =>
      Effect.gen(function* () {
        yield* type("\u001b[200~a\r\nb\u001b[201~\u001b\rc\nd\\\re\r")
        yield* until("You said: a\nb\nc\nd\ne")
        assert.strictEqual(model.asked.length, 1)
      })
    )
  )

  it.effect("what is sent meanwhile is done afterwards, in order", () =>
    session({}, ({ later, screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("be slow\r")
        yield* until("› be slow")
        yield* type("one\rtwo\r/status\rhalf")
        yield* until("next: two")
        yield* until("› half")
        yield* later("Tool lines")
        const shown = screen()
        assert.isBelow(shown.indexOf("You said: one"), shown.indexOf("You said: two"))
        yield* until("› half")
      })
    )
  )

  it.effect("with busy_input_mode interrupt it stops the turn first", () =>
    session({ display: { busyInputMode: "interrupt" } }, ({ type, until }) =>
      Effect.gen(function* () {
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* type("instead\r")
        yield* until("You said: instead")
      })
    )
  )

  it.effect("/stop is never kept waiting", () =>
    session({}, ({ type, until }) =>
      Effect.gen(function* () {
        yield* type("/stop\r")
        yield* until("Nothing is running.")
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* type("/sto\r")
        yield* until("Stopped.")
      })
    )
  )

  it.effect("a run that fails is one line, and the session goes on", () =>
    session({}, ({ type, until }) =>
      Effect.gen(function* () {
        yield* type("fail\r")
        yield* until("Error: this cannot be answered")
        yield* type("again\r")
        yield* until("You said: again")
      })
    )
  )

  it.effect("/retry asks the last thing again", () =>
    session({}, ({ model, type, until }) =>
      Effect.gen(function* () {
        yield* type("/retry\r")
        yield* until("No prompt to retry yet.")
        yield* type("hello\r")
        yield* until("You said: hello")
        yield* type("/retry\r")
        yield* until("You said: hello", 2)
        assert.strictEqual(model.asked.length, 2)
      })
    )
  )

  it.effect("! runs in the shell without the model, and tells the exit code", () =>
    session({}, ({ history, model, type, until }) =>
      Effect.gen(function* () {
        yield* type("!echo out; echo err >&2; exit 3\r")
        yield* until("out\nerr\nexit 3")
        assert.strictEqual(model.asked.length, 0)
        assert.deepStrictEqual(history.entries(), ["!echo out; echo err >&2; exit 3"])
        yield* type("!rm -rf /\r")
        yield* until("Blocked: ")
      })
    )
  )

  it.effect("Ctrl+C ends a command of the shell", () =>
    session({}, ({ later, type, until }) =>
      Effect.gen(function* () {
        yield* type("!!echo begun; sleep 100\r")
        yield* later("begun", 2)
        yield* type(ctrlC)
        yield* until("stopped")
        yield* type("hello\r")
        yield* until("You said: hello")
      })
    )
  )

  it.effect("commands are found in any case and by their beginning, and what is none is said", () =>
    session({}, ({ model, type, until }) =>
      Effect.gen(function* () {
        yield* type("/TOOLS list\r")
        yield* until("test     nap")
        yield* type("/usa\r")
        yield* until("Model calls")
        yield* type("/s\r")
        yield* until("/s could be /sessions, /status, /steer or /stop.")
        yield* type("/histry\r")
        yield* until("Unknown command /histry. Did you mean /history?")
        yield* type("/tmp/x is a path\r")
        yield* until("You said: /tmp/x is a path")
        assert.strictEqual(model.asked.length, 1)
      })
    )
  )

  it.effect("/verbose goes round, and takes a level", () =>
    session({}, ({ screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("/verbose\r")
        yield* until("verbose: each tool call is shown with its arguments and result")
        yield* type("use tools\r")
        yield* until("Both slept well.")
        assert.include(screen(), '┊   {"name":"anna","millis":0}\n┊   anna slept')
        yield* type("/verbose off\r")
        yield* until("off: tool calls are not shown")
        yield* type("use tools\r")
        yield* until("Both slept well.", 2)
        assert.strictEqual(screen().split("✓ nap anna").length, 2)
        yield* type("/verbose loud\r")
        yield* until("/verbose takes one of off, new, all, verbose.")
      })
    )
  )

  it.effect("a title that is given first is set with the first answer", () =>
    session({}, ({ left, store, type, until }) =>
      Effect.gen(function* () {
        yield* type("/title  My   talk \r")
        yield* until("Title: My talk")
        yield* type("hello\r")
        yield* until("You said: hello")
        yield* type("/title\r")
        yield* until("\nMy talk")
        yield* type(ctrlD)
        yield* left
        const found = yield* store.get(SessionId.make("20260101_000000_aaaaaa"))
        assert.strictEqual(Option.getOrThrow(found).title, "My talk")
      })
    )
  )

  it.effect("/usage shows the tokens of the session", () =>
    session({}, ({ type, until }) =>
      Effect.gen(function* () {
        yield* type("hello\r")
        yield* until("You said: hello")
        yield* type("/usage\r")
        const screen = yield* until("Duration")
        assert.include(screen, "Input        10 tokens")
        assert.include(screen, "Total        15 tokens")
        assert.include(screen, "Model calls  1")
      })
    )
  )

  it.effect("/usage sums the sessions of a conversation that was compacted, each once", () =>
    session({ sessionId: "20260101_000000_aaaaaa" }, ({ store, type, until }) =>
      Effect.gen(function* () {
        yield* type("hello\r")
        yield* until("You said: hello")
        const record = {
          provider: "fake",
          model: "fake-1",
          usage: { ...Usage.zero, inputTokens: 100, outputTokens: 20, requestCount: 2 },
          cost: Cost.toSpent(Cost.included)
        }
        const from = SessionId.make("20260101_000000_aaaaaa")
        for (const name of ["second", "third"]) {
          const id = SessionId.make(name)
          const before = yield* store.newest(from)
          yield* store.continueIn(before, {
            id,
            provider: "fake",
            model: "fake-1",
            systemPrompt: "",
            messages: [Prompt.userMessage({ content: [Prompt.textPart({ text: "summary" })] })],
            endReason: "text_response"
          })
          yield* store.recordUsage(id, record)
        }
        yield* type("/resume third\r")
        yield* until("Resumed")
        yield* type("/usage\r")
        const screen = yield* until("Duration")
        assert.include(screen, "Input        210 tokens")
        assert.include(screen, "Total        255 tokens")
        assert.include(screen, "Model calls  5")
        assert.include(screen, "Compactions  2")
        yield* type("/insights 0\r")
        yield* until("/insights takes a number of days, 1 to 3650.")
      })
    )
  )

  const fake = { provider: "fake", model: "fake-1", apiMode: "chat_completions", baseUrl: undefined } as const
  const auxiliary = (answer: string) => {
    const asked: Array<string> = []
    const used = new Map<string, Auxiliary.TaskUsage>()
    return {
      asked,
      service: {
        used: Effect.sync(() => used),
        call: (task: string, ask: Auxiliary.TaskRequest) =>
          Effect.sync(() => {
            asked.push(`${task} ${JSON.stringify(ask.messages)}`)
            const usage = { ...Usage.zero, inputTokens: 40, outputTokens: 5, requestCount: 1 }
            used.set(task, {
              usage,
              cost: Cost.toTotal({ usd: 0.0046, status: "estimated", source: "official_docs_snapshot" })
            })
            return { text: answer, usage, cost: Cost.included, response: textAnswer(answer), route: fake }
          })
      }
    }
  }

  it.effect("a session is named on the side after its first exchange, and /usage tells what that took", () => {
    const { asked, service } = auxiliary('Title: "Saying hello to models"\n')
    return session({ auxiliary: service, sessionId: "20260101_000000_aaaaaa" }, ({ store, type, until }) =>
      Effect.gen(function* () {
        yield* type("hello\r")
        yield* until("You said: hello")
        yield* type("again\r")
        yield* until("You said: again")
        const found = yield* store.get(SessionId.make("20260101_000000_aaaaaa"))
        assert.strictEqual(Option.getOrThrow(found).title, "Saying hello to models")
        assert.strictEqual(asked.length, 1)
        assert.include(asked[0], "three to seven words")
        yield* type("/usage\r")
        assert.match(yield* until("Duration"), /Side tasks\s+title: 40 in · 5 out · 1 model call · ~\$0\.0046/)
      })
    )
  })

  it.effect("a title that the user gave stays, and an answer that is no title changes nothing", () => {
    const { asked, service } = auxiliary("I cannot\ndo that")
    return session({ auxiliary: service, sessionId: "20260101_000000_aaaaaa" }, ({ store, type, until }) =>
      Effect.gen(function* () {
        yield* type("/title Mine\r")
        yield* type("hello\r")
        yield* until("You said: hello")
        const found = yield* store.get(SessionId.make("20260101_000000_aaaaaa"))
        assert.strictEqual(Option.getOrThrow(found).title, "Mine")
        assert.deepStrictEqual(asked, [])
        yield* type("/new\r")
        yield* type("hello there\r")
        yield* until("You said: hello there")
        yield* type("/status\r")
        assert.match(yield* until("Tool lines"), /Title\s+none/)
      })
    )
  })

  it.effect("/status shows the routes, their keys and breakers, where there is more than one", () => {
    const route = (provider: string) => ({
      provider,
      model: "m",
      apiMode: "chat_completions" as const,
      baseUrl: undefined
    })
    const key = (number: number, millis?: number) => ({
      id: "x",
      number,
      leases: 0,
      used: 0,
      resting: millis === undefined ? undefined : { millis, reason: "rate_limit" }
    })
    const routes = Effect.succeed([
      { route: route("a"), keys: [key(1, 41_500), key(2)], breaker: "Open" as const },
      { route: route("b"), keys: [], breaker: "Closed" as const }
    ])
    return session({ routes }, ({ type, until }) =>
      Effect.gen(function* () {
        yield* type("/status\r")
        const shown = yield* until("Tool lines")
        assert.match(shown, /^Route +m by a, 2 keys, key 1 rests for 42s \(rate_limit\), breaker open$/m)
        assert.match(shown, /^Fallback 1 +m by b, breaker closed$/m)
      })
    )
  })

  it.effect("quick commands run in the shell or stand for another line, and no circle is followed", () =>
    session(
      {
        quickCommands: {
          greet: { type: "exec", command: "echo hi" },
          info: { type: "alias", target: "status" },
          loop: { type: "alias", target: "/loop" }
        }
      },
      ({ type, until }) =>
        Effect.gen(function* () {
          yield* type("/greet there\r")
          yield* until("hi there\nexit 0")
          yield* type("/info\r")
          yield* until("Tool lines")
          yield* type("/loop\r")
          yield* until("/loop refers to itself")
        })
    )
  )

  it.effect("commands of plugins work like the program's own", () =>
    session(
      {
        commands: [
          {
            name: "shout",
            aliases: [],
            usage: "TEXT",
            help: "Ask loudly",
            run: (argument) => Effect.succeed({ _tag: "Send", prompt: argument.toUpperCase() })
          }
        ]
      },
      ({ type, until }) =>
        Effect.gen(function* () {
          yield* type("/help\r")
          yield* until("/shout TEXT")
          yield* type("/sh now\r")
          yield* until("You said: NOW")
        })
    )
  )

  it.effect("leaves with 0 when nobody can type any more, also in the middle of a turn", () =>
    session({}, ({ hangUp, left, type, until }) =>
      Effect.gen(function* () {
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* hangUp
        assert.strictEqual(yield* left, 0)
      })
    )
  )

  it.effect("what is logged is a line of its own, and harmless", () =>
    session(
      { listeners: [Hooks.on("post_api_request", () => Effect.logWarning("odd \u001b[31mthing"))] },
      ({ type, until }) =>
        Effect.gen(function* () {
          yield* type("markdown\r")
          yield* until("That is all.")
          yield* until("\nWarning: odd thing\n")
        })
    )
  )

  it.effect("a tool's question is asked, and answered by a number or in other words", () =>
    session({}, ({ model, screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("ask me\r")
        yield* until("? Which colour?\n  1 red\n  2 blue\n  ↑↓ and Enter, 1–2, or type your own answer\n›")
        yield* type("2\r")
        yield* until("Both slept well.")
        assert.include(screen(), "? Which colour?\n› blue\n")
        assert.include(JSON.stringify(model.asked.at(-1)?.messages.at(-1)), "blue")
      })
    )
  )

  it.effect.each([
    { said: "y", result: "it shines" },
    { said: "not now", result: "Reason: not now" }
  ])("what is dangerous: $said means $result", ({ result, said }) =>
    session({}, ({ model, type, until }) =>
      Effect.gen(function* () {
        yield* type("wipe\r")
        yield* until("? Allow this call? (wipe may change or delete things)\n  │ wipe {}\n  1 Allow once")
        yield* until("4, y, n, or type a reason to refuse")
        yield* type(`${said}\r`)
        yield* until("Both slept well.")
        assert.include(JSON.stringify(model.asked.at(-1)?.messages.at(-1)), result)
      })
    )
  )

  it.effect("arrow keys mark a choice and Enter takes it; Enter alone answers nothing", () =>
    session({}, ({ model, screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("wipe\r")
        yield* until("  4 Deny")
        yield* TestClock.adjust("1 second")
        yield* type("\r")
        yield* type("\u001b[B")
        yield* until("❯ 1 Allow once")
        yield* type("\u001b[A")
        yield* until("❯ 4 Deny")
        assert.notInclude(screen(), "⠋")
        yield* type("\r")
        yield* until("Both slept well.")
        assert.include(JSON.stringify(model.asked.at(-1)?.messages.at(-1)), "the user denied this")
      })
    )
  )

  it.effect("a question is shown whole, and what was being typed is there again after it", () =>
    session({}, ({ screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("ask long\rhalf a lin")
        yield* until("1 yes")
        assert.include(screen(), "? line 1\n  line 2\n")
        assert.include(screen(), "  line 80\n")
        yield* type("1\re")
        yield* until("Both slept well.")
        yield* until("› half a line")
      })
    )
  )

  it.effect("who was typing when a question came does not answer it by typing on", () =>
    session({}, ({ model, screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("ask later\r")
        yield* until("› ask later")
        yield* TestClock.adjust("900 millis")
        yield* type("1")
        yield* until("› 1")
        yield* TestClock.adjust("200 millis")
        yield* until("1 yes")
        yield* type("1\r")
        yield* until("next: 11")
        assert.include(screen(), "1 yes")
        yield* TestClock.adjust("1 second")
        yield* type("1\r")
        yield* until("Both slept well.")
        assert.include(JSON.stringify(model.asked.at(1)?.messages.at(-1)), "yes")
        yield* until("You said: 11")
      })
    )
  )

  it.effect("Ctrl+C that stops a turn and another one right after it leave", () =>
    session({}, ({ left, type, until }) =>
      Effect.gen(function* () {
        yield* type("hang\r")
        yield* until("Let me think about")
        yield* type(ctrlC)
        yield* until("Stopped.")
        yield* type(ctrlC)
        assert.strictEqual(yield* left, 130)
      })
    )
  )

  it.effect("131 a plugin's message is asked next when nothing is under way, and literally", () => {
    let inbox: Conversation | undefined
    return session(
      { attach: (conversation) => Effect.sync(() => void (inbox = conversation)) },
      ({ screen, type, until }) =>
        Effect.gen(function* () {
          yield* type("half a li")
          yield* until("› half a li")
          assert.strictEqual(inbox?.isRunning(), false)
          inbox?.queue("/quit is no command here")
          yield* until("You said: /quit is no command here")
          yield* until("› half a li")
          yield* type("ne\r")
          yield* until("You said: half a line")
          assert.include(screen(), "› /quit is no command here")
        })
    )
  })

  it.effect("131 a plugin's message stops what is under way", () => {
    let inbox: Conversation | undefined
    return session({ attach: (conversation) => Effect.sync(() => void (inbox = conversation)) }, ({ type, until }) =>
      Effect.gen(function* () {
        yield* type("hang\r")
        yield* until("Let me think about")
        assert.strictEqual(inbox?.isRunning(), true)
        inbox?.interrupt("[system] look here")
        yield* until("You said: [system] look here")
      })
    )
  })

  it.effect("a question goes with the turn that it belongs to", () =>
    session({}, ({ screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("ask me\r")
        yield* until("1 red")
        yield* type(ctrlC)
        yield* until("Stopped.")
        assert.notInclude(screen(), "1 red")
        yield* type("hello\r")
        yield* until("You said: hello")
      })
    )
  )
})

const stored = (exchanges: number) => (store: SessionStore) =>
  Effect.gen(function* () {
    const id = SessionId.make("20251231_120000_cccccc")
    yield* store.create({
      id,
      source: "cli",
      provider: "fake",
      model: "fake-1",
      systemPrompt: "You are a test.",
      title: "Old talk"
    })
    for (let index = 1; index <= exchanges; index++) {
      yield* store.append(id, [
        Prompt.userMessage({ content: [Prompt.textPart({ text: `question ${index}` })] }),
        Prompt.assistantMessage({ content: [Prompt.textPart({ text: `answer ${index}\n\n\u001b[2Jx` })] })
      ])
    }
  })

describe("Interactive session, from one to another", () => {
  it.effect("a resumed session shows its last exchanges", () =>
    session({ sessionId: "20251231_120000_cccccc", prepare: stored(12) }, ({ left, screen, type, until }) =>
      Effect.gen(function* () {
        yield* until("› question 12")
        const shown = screen()
        assert.include(shown, 'Resumed "Old talk" · 12 exchanges')
        assert.include(shown, "… 2 earlier exchanges not shown\n\n› question 3\n  answer 3\n  ␛[2Jx\n")
        assert.notInclude(shown, "question 2\n")
        yield* type("hello\r")
        yield* until("You said: hello")
        yield* type(ctrlD)
        yield* left
        assert.include(screen(), "26 messages, 13 by you")
      })
    )
  )

  it.effect("display.resume_display minimal shows a line", () =>
    session(
      { sessionId: "20251231_120000_cccccc", prepare: stored(2), display: { resumeDisplay: "minimal" } },
      ({ screen, until }) =>
        Effect.gen(function* () {
          yield* until('Resumed "Old talk" · 2 exchanges')
          yield* until("›")
          assert.notInclude(screen(), "question 1")
        })
    )
  )

  it.effect("/resume goes to another session by its title, /sessions lists them", () =>
    session({ prepare: stored(1) }, ({ model, type, until }) =>
      Effect.gen(function* () {
        yield* type("/resume nothing\r")
        yield* until('Error: no session "nothing"')
        yield* type("/resume Old talk\r")
        yield* until('Resumed "Old talk"')
        yield* type("/sessions\r")
        yield* until("* 20251231_120000_cccccc")
        yield* type("go on\r")
        yield* until("You said: go on")
        assert.strictEqual(model.asked[0]?.messages.length, 4)
      })
    )
  )

  it.effect("/clear empties the screen and begins a new session", () =>
    session({}, ({ model, screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("hello\r")
        yield* until("You said: hello")
        yield* type("/clear\r")
        yield* until("New session 20260101_000001_bbbbbb")
        assert.notInclude(screen(), "You said: hello")
        assert.include(screen(), "Previous session: hermes --resume 20260101_000000_aaaaaa")
        yield* type("second\r")
        yield* until("You said: second")
        assert.strictEqual(model.asked[1]?.messages.length, 2)
      })
    )
  )
})
