// `hermes acp`, driven by the official client library over its standard streams: one editor, several sessions.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, mkdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import * as acpEditor from "../../support/acpEditor.ts"
import { editor } from "../../support/acpProgram.ts"
import { machine } from "../../support/hermes.ts"
import * as playedModel from "../../support/playedModel.ts"
import { until } from "../../support/servedAgent.ts"
import { everythingHttp } from "../../tools/mcp/support/servers.ts"

const { say } = acpEditor

describe("hermes acp", () => {
  it.live("serves an editor: prompts, its buffers, permissions, plans, modes, models, and stored sessions", () =>
    Effect.gen(function* () {
      const own = yield* machine
      const { at, cwd, keep, put } = own
      const { seen, url } = yield* playedModel.make({
        "work on it": [
          {
            thought: "I look first.",
            calls: [
              ["read_file", { path: "notes.txt" }],
              [
                "todo",
                {
                  todos: [
                    { id: "1", content: "write", status: "in_progress" },
                    { id: "2", content: "rest", status: "pending" }
                  ]
                }
              ]
            ]
          },
          {
            text: "Now I write.",
            calls: [["patch", { path: "notes.txt", old_string: "not saved", new_string: "saved now" }]]
          },
          { calls: [["terminal", { command: "rm -rf ../gone" }]] },
          { calls: [["terminal", { command: "rm -rf ../gone" }]] },
          { text: "All done." }
        ],
        "wait for me": [{ text: "I begin slowly", hangs: true }],
        "look at this": [{ text: "I see." }],
        second: [{ text: "Here too." }]
      })
      keep(
        "config.yaml",
        `model: { provider: custom, default: m, base_url: "${url}/v1", api_key: key-of-this-test-only, context_length: 100000 }\n`
      )
      put("notes.txt", "one\nas it is on the disk\nthree\n")
      mkdirSync(join(dirname(cwd), "gone"))
      const buffers = new Map([[at("notes.txt"), "one\nnot saved\nthree\n"]])
      const client = yield* editor(own, buffers)
      const { answers, ask, asked, failing, of, textOf, written } = client
      const remote = [
        ["http", yield* everythingHttp("streamableHttp")],
        ["sse", yield* everythingHttp("sse")]
      ] as const
      yield* Effect.promise(async () => {
        const hello = await ask("initialize", {
          protocolVersion: 99,
          clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } }
        })
        assert.deepInclude(hello, { protocolVersion: 1, authMethods: [] })
        assert.deepInclude(hello.agentCapabilities, {
          loadSession: true,
          promptCapabilities: { image: true, embeddedContext: true }
        })

        assert.deepInclude(await failing(ask("session/new", { cwd: "relative", mcpServers: [] })), {
          code: -32_602,
          message: `cwd "relative" is not absolute.`
        })
        assert.deepInclude(await failing(ask("session/new", { cwd: at("missing"), mcpServers: [] })), {
          code: -32_602,
          message: `cwd "${at("missing")}" is not a directory.`
        })
        assert.strictEqual(
          (await failing(ask("session/prompt", { sessionId: "nobody", prompt: say("hi") }))).code,
          -32_002
        )
        assert.strictEqual(
          (await failing(ask("session/load", { sessionId: "nobody", cwd, mcpServers: [] }))).code,
          -32_002
        )

        const { configOptions = [], modes, sessionId } = await ask("session/new", { cwd, mcpServers: [] })
        assert.strictEqual(modes?.currentModeId, "ask")
        assert.deepStrictEqual(
          modes?.availableModes.map(({ id }) => id),
          ["plan", "ask", "edits", "auto", "yolo"]
        )
        assert.deepStrictEqual(
          configOptions?.map(({ category, id }) => [id, category]),
          [
            ["mode", "mode"],
            ["model", "model"],
            ["effort", "thought_level"]
          ]
        )
        await until(() => of(sessionId, "available_commands_update").length > 0)
        const names = of(sessionId, "available_commands_update")[0]?.availableCommands.map(({ name }) => name) ?? []
        for (const name of ["compact", "diff", "undo", "redo"]) assert.include(names, name)

        // A whole turn.
        answers.push("deny", "once")
        const { stopReason, usage } = await ask("session/prompt", {
          sessionId,
          prompt: [...say("work on it: "), { type: "resource_link", name: "notes", uri: `file://${at("notes.txt")}` }]
        })
        assert.deepInclude({ stopReason, ...usage }, { stopReason: "end_turn", inputTokens: 500, outputTokens: 50 })
        await until(() => textOf(sessionId) === "Now I write.\n\nAll done.")
        assert.strictEqual(
          of(sessionId, "agent_thought_chunk")
            .map(({ content }) => (content.type === "text" ? content.text : ""))
            .join(""),
          "I look first."
        )
        assert.deepStrictEqual(
          of(sessionId, "plan")
            .at(-1)
            ?.entries.map(({ content, status }) => [content, status]),
          [
            ["write", "in_progress"],
            ["rest", "pending"]
          ]
        )
        assert.deepInclude(of(sessionId, "usage_update").at(-1), { used: 110, size: 100_000 })

        // The editor's text is read and written, not that of the file.
        assert.include(JSON.stringify(seen[1]), "2|not saved")
        assert.deepStrictEqual(written, [[at("notes.txt"), "one\nsaved now\nthree\n"]])
        assert.strictEqual(readFileSync(at("notes.txt"), "utf8"), "one\nas it is on the disk\nthree\n")

        const calls = of(sessionId, "tool_call")
        assert.deepStrictEqual(
          calls.map(({ kind, name }) => [name, kind]),
          [
            ["read_file", "read"],
            ["todo", "think"],
            ["patch", "edit"],
            ["terminal", "execute"],
            ["terminal", "execute"]
          ]
        )
        const ends = of(sessionId, "tool_call_update").filter(
          ({ status }) => status === "completed" || status === "failed"
        )
        assert.deepStrictEqual(
          ends.map(({ status }) => status),
          ["completed", "completed", "completed", "failed", "completed"]
        )
        const reading = of(sessionId, "tool_call_update").find(({ title }) => title === "read_file: notes.txt")
        assert.deepInclude(reading, {
          status: "in_progress",
          locations: [{ path: at("notes.txt") }],
          rawInput: { path: "notes.txt" }
        })

        // Two questions: one refused, one allowed.
        assert.deepStrictEqual(
          asked.map(({ toolCall }) => [toolCall.title, toolCall.kind]),
          [
            ["rm -rf ../gone", "execute"],
            ["rm -rf ../gone", "execute"]
          ]
        )
        assert.deepStrictEqual(
          asked[0]?.options.filter(({ kind }) => kind.endsWith("once")).map(({ name, optionId }) => [optionId, name]),
          [
            ["once", "Allow once"],
            ["deny", "Deny"]
          ]
        )
        assert.isFalse(existsSync(join(dirname(cwd), "gone")))

        // A turn that is stopped, and what is refused meanwhile.
        const hanging = ask("session/prompt", { sessionId, prompt: say("wait for me") })
        await until(() => textOf(sessionId).slice(-20).includes("I begin"))
        assert.deepInclude(await failing(ask("session/prompt", { sessionId, prompt: say("second") })), {
          code: -32_600,
          message: "A prompt of this session is under way. Cancel it, or wait for its end."
        })
        const other = await ask("session/new", { cwd, mcpServers: [] })
        assert.strictEqual(
          (await ask("session/prompt", { sessionId: other.sessionId, prompt: say("second") })).stopReason,
          "end_turn"
        )
        await until(() => textOf(other.sessionId) === "Here too.")
        // A fork of what is stored works beside its origin, and is stopped without it.
        const beside = await ask("session/fork", { sessionId, cwd, mcpServers: [] })
        const forked = ask("session/prompt", { sessionId: beside.sessionId, prompt: say("wait for me too") })
        await until(() => textOf(beside.sessionId).includes("I begin"))
        assert.include(JSON.stringify(seen.at(-1)), "work on it")
        await client.connection.agent.notify("session/cancel", { sessionId: beside.sessionId })
        assert.strictEqual((await forked).stopReason, "cancelled")
        await ask("session/delete", { sessionId: beside.sessionId })
        assert.strictEqual((await failing(ask("session/prompt", { sessionId, prompt: say("second") }))).code, -32_600)
        await client.connection.agent.notify("session/cancel", { sessionId })
        assert.strictEqual((await hanging).stopReason, "cancelled")

        // Bad prompts leave the session as it is.
        assert.strictEqual(
          (await failing(ask("session/prompt", { sessionId, prompt: [] }))).message,
          "The prompt is empty."
        )
        assert.include(
          (
            await failing(
              ask("session/prompt", { sessionId, prompt: [{ type: "audio", data: "AAAA", mimeType: "audio/wav" }] })
            )
          ).message,
          "Audio is not supported"
        )
        assert.include(
          (
            await failing(
              ask("session/prompt", { sessionId, prompt: [{ type: "image", data: "!", mimeType: "image/png" }] })
            )
          ).message,
          "not base64"
        )
        const image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        assert.strictEqual(
          (
            await ask("session/prompt", {
              sessionId,
              prompt: [
                ...say("look at this"),
                { type: "image", data: image, mimeType: "image/png" },
                { type: "resource", resource: { uri: `file://${at("b.ts")}`, text: "const b = 1" } }
              ]
            })
          ).stopReason,
          "end_turn"
        )
        const looked = JSON.stringify(seen.at(-1))
        assert.include(looked, `data:image/png;base64,${image.slice(0, 20)}`)
        assert.include(
          looked,
          `<file path=\\\\\\"${at("b.ts")}\\\\\\">\\\\nconst b = 1`
            .replaceAll("\\\\\\", "\\")
            .replaceAll("\\\\n", "\\n")
        )

        // Modes and options.
        await ask("session/set_mode", { sessionId, modeId: "plan" })
        await until(() => of(sessionId, "current_mode_update").some(({ currentModeId }) => currentModeId === "plan"))
        assert.strictEqual((await failing(ask("session/set_mode", { sessionId, modeId: "fast" }))).code, -32_602)
        const { configOptions: set } = await ask("session/set_config_option", {
          sessionId,
          configId: "model",
          value: "custom/other"
        })
        assert.strictEqual(set.find(({ id }) => id === "model")?.currentValue, "custom/other")
        await ask("session/prompt", { sessionId, prompt: say("second") })
        assert.strictEqual(seen.at(-1)?.model, "other")

        // A plan is decided on within the prompt that made it; without a choice planning goes on.
        assert.deepInclude(asked.at(-1)?.toolCall, {
          title: "Carry out this plan?",
          kind: "switch_mode",
          content: [{ type: "content", content: { type: "text", text: "Here too." } }]
        })
        assert.deepStrictEqual(
          asked.at(-1)?.options.map(({ optionId }) => optionId),
          ["ask", "edits", "auto", "plan"]
        )
        assert.strictEqual(of(sessionId, "current_mode_update").at(-1)?.currentModeId, "plan")
        answers.push("ask")
        assert.strictEqual((await ask("session/prompt", { sessionId, prompt: say("second") })).stopReason, "end_turn")
        assert.strictEqual(of(sessionId, "current_mode_update").at(-1)?.currentModeId, "ask")
        assert.include(JSON.stringify(seen.at(-1)?.messages), "The plan is approved. Carry it out now.")

        // Commands.
        await ask("session/prompt", { sessionId, prompt: say("/diff") })
        const lines = client.wire().trimEnd().split("\n")
        assert.include(lines.at(-2), "+saved now", "updates stand before the answer to the prompt")
        assert.include(lines.at(-1), "end_turn")

        // Stored sessions.
        const { sessions } = await ask("session/list", { cwd })
        assert.sameMembers(
          sessions.map(({ sessionId }) => sessionId),
          [sessionId, other.sessionId]
        )
        await ask("session/close", { sessionId })
        assert.strictEqual((await failing(ask("session/prompt", { sessionId, prompt: say("hi") }))).code, -32_002)
        client.updates.length = 0
        await ask("session/load", { sessionId, cwd, mcpServers: [] })
        await until(() => textOf(sessionId).startsWith("Now I write.All done."))
        const replayed = client.updates.map(([, update]) => update.sessionUpdate)
        assert.deepStrictEqual(replayed.slice(0, 4), [
          "user_message_chunk",
          "agent_thought_chunk",
          "tool_call",
          "tool_call"
        ])
        const fork = await ask("session/fork", { sessionId, cwd, mcpServers: [] })
        assert.notStrictEqual(fork.sessionId, sessionId)
        await ask("session/prompt", { sessionId: fork.sessionId, prompt: say("second") })
        assert.include(JSON.stringify(seen.at(-1)), "work on it")
        await ask("session/delete", { sessionId: other.sessionId })
        assert.notInclude(
          (await ask("session/list", {})).sessions.map(({ sessionId }) => sessionId),
          other.sessionId
        )

        // A server of the editor serves its session, and ends with it.
        const children = () =>
          readFileSync(`/proc/${client.child.pid}/task/${client.child.pid}/children`, "utf8")
            .trim()
            .split(/\s+/u)
            .filter((pid) => pid !== "" && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("server-everything"))
        const everything = fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-everything/package.json"))
        const served = await ask("session/new", {
          cwd,
          mcpServers: [
            {
              name: "everything",
              command: process.execPath,
              args: [join(dirname(everything), "dist/index.js")],
              env: []
            }
          ]
        })
        await ask("session/prompt", { sessionId: served.sessionId, prompt: say("second") })
        assert.include(
          (seen.at(-1)?.tools ?? []).map((tool) => tool.function.name),
          "mcp__everything__echo"
        )
        if (existsSync("/proc/self/task")) {
          assert.lengthOf(children(), 1)
          await ask("session/close", { sessionId: served.sessionId })
          assert.lengthOf(children(), 0)
        }
        for (const [type, url] of remote) {
          const reached = await ask("session/new", { cwd, mcpServers: [{ type, name: "remote", url, headers: [] }] })
          await ask("session/prompt", { sessionId: reached.sessionId, prompt: say("second") })
          assert.include(
            (seen.at(-1)?.tools ?? []).map((tool) => tool.function.name),
            "mcp__remote__echo",
            type
          )
          await ask("session/close", { sessionId: reached.sessionId })
        }

        // The editor hangs up in the middle of a turn.
        void ask("session/prompt", { sessionId, prompt: say("wait for me") }).catch(() => undefined)
        await until(() => textOf(sessionId).slice(-20).includes("I begin"))
        await client.hangUp()
        assert.strictEqual(await client.ended, 0, client.said())
      })
    })
  )

  it.live("says what is missing: a model, the trust in a folder; and loads a conversation that was compacted", () =>
    Effect.gen(function* () {
      const bare = yield* machine
      mkdirSync(bare.home)
      const lonely = yield* editor({ ...bare, env: { HERMES_MODEL__PROVIDER: "auto" } })
      yield* Effect.promise(async () => {
        await lonely.ask("initialize", { protocolVersion: 1, clientCapabilities: {} })
        const refused = await lonely.failing(lonely.ask("session/new", { cwd: bare.cwd, mcpServers: [] }))
        assert.deepStrictEqual(refused, {
          code: -32_000,
          message: "No model is configured. Run `hermes model` in a terminal."
        })
        assert.deepStrictEqual((await lonely.ask("session/list", {})).sessions, [])
        await lonely.hangUp()
        assert.strictEqual(await lonely.ended, 0, lonely.said())
      })

      const own = yield* machine
      const { cwd, keep, put } = own
      const long = "a long answer ".repeat(400)
      const { seen, url } = yield* playedModel.make({
        again: [{ text: "And again." }],
        "tell me": [{ text: long }],
        "(summary)": [{ text: "They talked." }]
      })
      keep(
        "config.yaml",
        [
          "model:",
          "  provider: custom",
          "  default: m",
          `  base_url: ${url}/v1`,
          "  api_key: upstream",
          "  context_length: 100000"
        ].join("\n")
      )
      put(".hermes/plugins/own.js", "export default {}")
      put(".git/HEAD", "ref: refs/heads/main\n")
      const { ask, ended, hangUp, of, said, textOf, updates } = yield* editor(own)
      yield* Effect.promise(async () => {
        await ask("initialize", { protocolVersion: 1, clientCapabilities: {} })
        const { sessionId } = await ask("session/new", { cwd, mcpServers: [] })
        for (let count = 0; count < 12; count++)
          await ask("session/prompt", { sessionId, prompt: say(`tell me ${count}`) })
        // Once, in front of the first prompt.
        const untrusted = textOf(sessionId, "agent_thought_chunk")
        assert.strictEqual(
          untrusted,
          `${own.at(".hermes/plugins")} of this project have no effect, because the folder is not trusted. Review them, then run \`hermes trust add ${cwd}\`.\n`
        )
        await ask("session/prompt", { sessionId, prompt: say("/compact") })
        await until(() => textOf(sessionId).trim().endsWith("The conversation was compacted."))

        // The client's id leads to where the conversation went, and what stood before is one summary.
        updates.length = 0
        await ask("session/load", { sessionId, cwd, mcpServers: [] })
        const replayed = () =>
          of(sessionId, "user_message_chunk").map(({ content }) => (content.type === "text" ? content.text : ""))
        await until(() => replayed().includes("tell me 11"))
        const summary = replayed().find((text) => !text.startsWith("tell me")) ?? ""
        assert.match(summary, /^\[Summary of earlier messages[^]*They talked\./u)
        assert.deepStrictEqual(replayed(), [
          "tell me 0",
          "tell me 1",
          summary,
          ...[2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map((count) => `tell me ${count}`)
        ])
        await ask("session/prompt", { sessionId, prompt: say("again") })
        await until(() => textOf(sessionId).endsWith("And again."))
        assert.include(JSON.stringify(seen.at(-1)?.messages), "They talked.")
        // Opened by its newest id it is the same conversation, which is not open twice.
        const [newest] = (await ask("session/list", { cwd })).sessions
        assert.notStrictEqual(newest?.sessionId, sessionId)
        await ask("session/resume", { sessionId: newest?.sessionId ?? "", cwd, mcpServers: [] })
        await ask("session/prompt", { sessionId: newest?.sessionId ?? "", prompt: say("again") })
        await hangUp()
        assert.strictEqual(await ended, 0, said())
      })
    })
  )
})
