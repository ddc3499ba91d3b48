// What an episode keeps of the answers of its rollout, and what may be exported of it.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { appendFileSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type * as Json from "../../../src/base/domain/Json.ts"
import * as EpisodeExport from "../../../src/research/rollout/EpisodeExport.ts"
import { Episodes, layer, type Request } from "../../../src/research/rollout/Episodes.ts"
import * as EpisodeStore from "../../../src/research/rollout/EpisodeStore.ts"
import * as TokenCapture from "../../../src/research/rollout/TokenCapture.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const memory = layer.pipe(Layer.provide(EpisodeStore.layerMemory))
const files = (directory: string) =>
  layer.pipe(Layer.provide(EpisodeStore.layerDirectory(directory)), Layer.provide(NodeServices.layer))

const user = (content: string): Json.Fields => ({ role: "user", content })
const said = (content: string): Json.Fields => ({ role: "assistant", content })

const request = (...messages: ReadonlyArray<Json.Fields>): Request => ({
  messages,
  tools: undefined,
  sampling: { temperature: 1 }
})

/** A body of vLLM. */
const vllm = (content: string, prompt: ReadonlyArray<number>, tokens: ReadonlyArray<number>): Json.Fields => ({
  id: "c",
  model: "m",
  prompt_token_ids: prompt,
  choices: [
    {
      index: 0,
      message: said(content),
      finish_reason: "stop",
      token_ids: tokens,
      logprobs: { content: tokens.map((token) => ({ token: "x", logprob: -token / 10 })) }
    }
  ]
})

const scored = (id: string) =>
  Effect.flatMap(
    Episodes.use((episodes) => episodes.get(id)),
    (episode) => Effect.fromResult(EpisodeExport.toScoredEpisode(episode))
  )

describe("Episode", () => {
  it.effect("case 83: the mask is −100 on each prompt token, and all lists are as long as the tokens", () =>
    Effect.gen(function* () {
      const { call, finish, open } = yield* Episodes
      yield* open({ rollout_id: "r", group_id: "g", weights_version: "step-7" }, "m")
      yield* call("r", request(user("hi")), () => Effect.succeed(vllm("yes?", [1, 2, 3], [4, 5])))
      yield* call("r", request(user("hi"), said("yes?"), user("bye")), () =>
        Effect.succeed(vllm("ciao", [1, 2, 3, 4, 5, 6, 7], [8]))
      )
      yield* finish("r", { reward: 0.5, components: { style: 0.5 } })
      const episode = yield* scored("r")
      assert.deepStrictEqual(episode.tokens, [1, 2, 3, 4, 5, 6, 7, 8])
      assert.deepStrictEqual(episode.masks, [-100, -100, -100, 4, 5, -100, -100, 8])
      assert.deepStrictEqual(episode.inference_logprobs, [1, 1, 1, -0.4, -0.5, 1, 1, -0.8])
      assert.strictEqual(episode.score, 0.5)
      assert.deepStrictEqual(
        episode.messages.map(({ role }) => role),
        ["user", "assistant", "user", "assistant"]
      )
      assert.deepStrictEqual(episode.generation_params, { temperature: 1 })
      assert.strictEqual(episode.overrides["weights_version"], "step-7")
      assert.deepStrictEqual(EpisodeExport.findProblems(episode), [])
    }).pipe(Effect.provide(memory))
  )

  it.effect("a prompt that was tokenised anew begins a node, and only the last node counts", () =>
    Effect.gen(function* () {
      const { call, finish, get, open } = yield* Episodes
      yield* open({ rollout_id: "r" }, "m")
      yield* call("r", request(user("hi")), () => Effect.succeed(vllm("yes?", [1, 2], [4, 5])))
      yield* call("r", request(user("hi"), said("yes?"), user("bye")), () =>
        Effect.succeed(vllm("ciao", [1, 2, 45, 6], [8]))
      )
      yield* finish("r", { reward: 1 })
      assert.deepStrictEqual(
        (yield* get("r")).nodes.map(({ cause }) => cause),
        ["begin", "retokenised"]
      )
      const { masks, messages, tokens } = yield* scored("r")
      assert.deepStrictEqual(tokens, [1, 2, 45, 6, 8])
      assert.deepStrictEqual(masks, [-100, -100, -100, -100, 8])
      assert.lengthOf(messages, 4)
    }).pipe(Effect.provide(memory))
  )

  it.effect("a history that is no extension is refused, or begins a node where the rollout allows branches", () =>
    Effect.gen(function* () {
      const { call, get, open } = yield* Episodes
      for (const id of ["strict", "branching"]) {
        yield* open({ rollout_id: id, on_divergence: id === "strict" ? "refuse" : "branch" }, "m")
        yield* call(id, request(user("hi")), () => Effect.succeed(vllm("yes?", [1], [4])))
      }
      const other = request(user("hi"), said("no!"), user("bye"))
      let asked = 0
      const ask = () =>
        Effect.sync(() => {
          asked++
          return vllm("ciao", [1, 9], [8])
        })
      const refused = yield* Effect.flip(call("strict", other, ask))
      assert.strictEqual(refused.reason, "history_diverged")
      assert.include(refused.message, "Message 2 is another one")
      assert.strictEqual(asked, 0)
      yield* call("branching", other, ask)
      const { nodes } = yield* get("branching")
      assert.deepStrictEqual(
        nodes.map(({ cause, tokens }) => [cause, tokens]),
        [
          ["begin", [1, 4]],
          ["history_diverged", [1, 9, 8]]
        ]
      )
      assert.lengthOf(nodes[1]?.messages ?? [], 4)
    }).pipe(Effect.provide(memory))
  )

  it.effect("what a client made of an answer is not sent: the model gets its own words, byte for byte", () =>
    Effect.gen(function* () {
      const { call, get, open } = yield* Episodes
      yield* open({ rollout_id: "r" }, "m")
      const own = {
        role: "assistant",
        content: "<think>hm</think>\n\nI add.",
        tool_calls: [{ id: "1", type: "function", function: { name: "add", arguments: '{"b": 1, "a": 2}' } }]
      }
      yield* call("r", request(user("hi")), () => Effect.succeed({ choices: [{ message: own }] }))
      const changed = {
        ...own,
        content: "I add.",
        tool_calls: [{ id: "1", type: "function", function: { name: "add", arguments: '{"a":2,"b":1}' } }]
      }
      const tool = { role: "tool", tool_call_id: "1", content: "3" }
      let sent: ReadonlyArray<Json.Fields> = []
      yield* call("r", request(user("hi"), changed, tool), (messages) => {
        sent = messages
        return Effect.succeed({ choices: [{ message: said("3") }] })
      })
      assert.deepStrictEqual(sent, [user("hi"), own, tool])
      assert.lengthOf((yield* get("r")).nodes, 1)
    }).pipe(Effect.provide(memory))
  )

  it.effect("empty content, left-out reasoning and spaces in arguments make no other history", () =>
    Effect.gen(function* () {
      const { call, get, open } = yield* Episodes
      yield* open({ rollout_id: "r" }, "m")
      const calls = (args: string) => [{ id: "1", type: "function", function: { name: "add", arguments: args } }]
      const body = {
        choices: [
          {
            message: { role: "assistant", content: null, reasoning_content: "hm", tool_calls: calls('{"a": 1}') },
            finish_reason: "tool_calls"
          }
        ]
      }
      yield* call("r", request(user("hi")), () => Effect.succeed(body))
      const tool = { role: "tool", tool_call_id: "1", content: "2" }
      yield* call(
        "r",
        request(
          { role: "user", content: [{ type: "text", text: "hi" }] },
          { role: "assistant", content: "", tool_calls: calls('{"a":1}') },
          tool
        ),
        () => Effect.succeed(body)
      )
      assert.lengthOf((yield* get("r")).nodes, 1)
    }).pipe(Effect.provide(memory))
  )

  it.effect("a provider without token ids: the episode says so, is good for evaluation, and no token is made up", () =>
    Effect.gen(function* () {
      const { call, finish, get, open } = yield* Episodes
      yield* open({ rollout_id: "r" }, "m")
      yield* call("r", request(user("hi")), () =>
        Effect.succeed({
          choices: [
            {
              message: said("yes?"),
              logprobs: {
                content: [
                  { token: "yes", logprob: -0.1 },
                  { token: "?", logprob: -0.2 }
                ]
              }
            }
          ]
        })
      )
      yield* finish("r", { reward: 1 })
      const episode = yield* get("r")
      assert.strictEqual((yield* Effect.flip(scored("r"))).reason, "not_trainable")
      assert.include(
        EpisodeExport.toView(episode).not_trainable,
        "the provider returned no token ids of the prompt (call 1)"
      )
      assert.deepStrictEqual(EpisodeExport.toSupervised(episode)["messages"], [user("hi"), said("yes?")])
    }).pipe(Effect.provide(memory))
  )

  it.effect(
    "two requests at once: the second is refused; a client that goes away leaves a mark and a usable rollout",
    () =>
      Effect.gen(function* () {
        const { call, finish, get, open } = yield* Episodes
        yield* open({ rollout_id: "r" }, "m")
        const asked = yield* Deferred.make<void>()
        const hanging = yield* Effect.forkChild(
          call("r", request(user("hi")), () => Effect.andThen(Deferred.succeed(asked, undefined), Effect.never))
        )
        yield* Deferred.await(asked)
        assert.strictEqual(
          (yield* Effect.flip(call("r", request(user("hi")), () => Effect.die("asked")))).reason,
          "rollout_busy"
        )
        yield* Fiber.interrupt(hanging)
        assert.strictEqual((yield* get("r")).interrupted, 1)
        yield* Effect.ignore(call("r", request(user("hi")), () => Effect.fail("refused")))
        yield* call("r", request(user("hi")), () => Effect.succeed(vllm("yes?", [1], [2])))
        const ended = yield* finish("r", { reward: 0 })
        assert.deepInclude(EpisodeExport.toView(ended), {
          calls: 3,
          failed_calls: 1,
          interrupted_calls: 1,
          status: "finished",
          tokens: 2,
          trained_tokens: 1
        })
        assert.strictEqual(
          (yield* Effect.flip(call("r", request(user("hi")), () => Effect.die("asked")))).reason,
          "rollout_finished"
        )
        assert.strictEqual((yield* Effect.flip(open({ rollout_id: "r" }, "m"))).reason, "rollout_exists")
        assert.strictEqual((yield* Effect.flip(get("other"))).reason, "unknown_rollout")
      }).pipe(Effect.provide(memory))
  )

  it.effect(
    "a file is the same episode in another process; a line that was cut is left out and nothing before it is lost",
    () =>
      Effect.gen(function* () {
        const directory = join(yield* temporaryDirectory, "rollouts")
        const first = Effect.gen(function* () {
          const { call, open } = yield* Episodes
          yield* open({ rollout_id: "r", metadata: { item: "1" } }, "m")
          yield* call("r", request(user("hi")), () => Effect.succeed(vllm("yes?", [1, 2], [4])))
        })
        yield* Effect.provide(first, files(directory))
        const path = join(directory, "r.jsonl")
        // A process that was killed in the middle of its second call.
        appendFileSync(
          path,
          `${JSON.stringify({ type: "call", call: 1, at: "2026" })}\n{"type":"answer","call":1,"mess`
        )
        const second = Effect.gen(function* () {
          const { call, finish } = yield* Episodes
          yield* call("r", request(user("hi"), said("yes?"), user("bye")), () =>
            Effect.succeed(vllm("ciao", [1, 2, 4, 6], [8]))
          )
          yield* finish("r", { reward: 1 })
          return yield* scored("r")
        })
        const { masks } = yield* Effect.provide(second, files(directory))
        assert.deepStrictEqual(masks, [-100, -100, 4, -100, 8])
        const read = EpisodeStore.parse(readFileSync(path, "utf8"))
        assert.isDefined(read)
        if (read === undefined) return
        assert.deepInclude(EpisodeExport.toView(read), { calls: 3, interrupted_calls: 1, nodes: 1 })
        assert.isTrue(Result.isSuccess(EpisodeExport.toScoredEpisode(read)))
      })
  )

  it.effect("an id that leads out of the directory is unknown, whatever is there", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const inside = files(join(directory, "inside"))
      yield* Effect.provide(
        Episodes.use(({ open }) => open({ rollout_id: "r" }, "m")),
        files(directory)
      )
      const refused = Effect.gen(function* () {
        const { call, finish, get } = yield* Episodes
        return yield* Effect.forEach(
          [
            Effect.asVoid(get("../r")),
            Effect.asVoid(call("../r", request(user("hi")), () => Effect.die("asked"))),
            Effect.asVoid(finish("../r", {}))
          ],
          (work) => Effect.flip(work)
        )
      })
      assert.deepStrictEqual(
        (yield* Effect.provide(refused, inside)).map(({ reason }) => reason),
        ["unknown_rollout", "unknown_rollout", "unknown_rollout"]
      )
    })
  )

  it.effect("raw text of a server is told apart into text and calls by the parser of the rollout", () =>
    Effect.gen(function* () {
      const { call, get, open } = yield* Episodes
      assert.strictEqual((yield* Effect.flip(open({ tool_call_parser: "gpt" }, "m"))).reason, "invalid_request")
      yield* open({ rollout_id: "r", tool_call_parser: "hermes" }, "m")
      const body = yield* call("r", request(user("hi")), () =>
        Effect.succeed(vllm('Ok.<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>', [1], [2]))
      )
      const toolCalls = [{ id: "call_c_0", type: "function", function: { name: "add", arguments: '{"a":1}' } }]
      assert.deepNestedInclude(body, {
        "choices[0].finish_reason": "tool_calls",
        "choices[0].message.tool_calls": toolCalls,
        "choices[0].message.content": "Ok."
      })
      assert.deepStrictEqual((yield* get("r")).nodes[0]?.messages.at(-1)?.["tool_calls"], toolCalls)
    }).pipe(Effect.provide(memory))
  )
})

describe("TokenCapture", () => {
  it("reads the forms of vLLM, older vLLM and SGLang", () => {
    assert.deepStrictEqual(TokenCapture.read(vllm("a", [1], [2, 3])), {
      promptTokens: [1],
      tokens: [2, 3],
      logprobs: [-0.2, -0.3],
      problems: []
    })
    const named = { choices: [{ logprobs: { content: [{ token: "token_id:17", logprob: -1 }] } }] }
    assert.deepInclude(TokenCapture.read(named), { tokens: [17], logprobs: [-1], promptTokens: undefined })
    const sglang = {
      choices: [
        {
          prompt_token_ids: [1, 2],
          meta_info: {
            output_token_logprobs: [
              [-0.5, 7, null],
              [-0.25, 8, null]
            ]
          }
        }
      ]
    }
    assert.deepStrictEqual(TokenCapture.read(sglang), {
      promptTokens: [1, 2],
      tokens: [7, 8],
      logprobs: [-0.5, -0.25],
      problems: []
    })
  })

  it("names what is missing, and pairs no list of another length", () => {
    const { logprobs, problems, tokens } = TokenCapture.read({
      choices: [{ token_ids: [1, 2], logprobs: { content: [{ token: "a", logprob: -1 }] } }]
    })
    assert.deepStrictEqual([tokens, logprobs], [[1, 2], undefined])
    assert.deepStrictEqual(problems, [
      "the provider returned no token ids of the prompt",
      "the provider returned 1 log probabilities for 2 tokens"
    ])
    assert.lengthOf(TokenCapture.read({ choices: [{ token_ids: [1, -2] }] }).problems, 3)
  })

  it("asks servers for inference for ids, and known APIs for what they know alone", () => {
    assert.strictEqual(TokenCapture.chooseDialect("http://127.0.0.1:8000/v1"), "token_ids")
    assert.strictEqual(TokenCapture.chooseDialect("https://api.openai.com/v1"), "logprobs")
    assert.strictEqual(TokenCapture.chooseDialect("https://api.openai.com.example/v1"), "token_ids")
  })

  it("keeps tokens from clients that did not ask for them", () => {
    const body = vllm("a", [1], [2])
    assert.notInclude(JSON.stringify(TokenCapture.hideTokens(body, {})), "token_ids")
    assert.notInclude(JSON.stringify(TokenCapture.hideTokens(body, {})), "logprobs")
    assert.deepStrictEqual(TokenCapture.hideTokens(body, { logprobs: true, return_token_ids: true }), body)
  })
})

describe("EpisodeExport", () => {
  it("a group has the lists of its members, and those that all of them have", () => {
    const one = {
      rollout_id: "a",
      group_id: "g",
      tokens: [1, 2],
      masks: [-100, 2],
      score: 1,
      messages: [user("x")],
      inference_logprobs: [1, -1],
      generation_params: {},
      overrides: {}
    }
    const { inference_logprobs: _, ...bare } = { ...one, rollout_id: "b" }
    assert.deepStrictEqual(EpisodeExport.toGroup([one, one]).inference_logprobs, [
      [1, -1],
      [1, -1]
    ])
    assert.notProperty(EpisodeExport.toGroup([one, bare]), "inference_logprobs")
  })

  it.effect("episodes of a server have their advantages when their group is exported", () =>
    Effect.gen(function* () {
      const { call, finish, get, open } = yield* Episodes
      for (const [id, reward] of [
        ["a", 1],
        ["b", 0],
        ["alone", 1]
      ] as const) {
        yield* open({ rollout_id: id, group_id: id === "alone" ? id : "g" }, "m")
        yield* call(id, request(user("hi")), () => Effect.succeed(vllm("x", [1], [2])))
        yield* finish(id, { reward })
      }
      const compared = EpisodeExport.addAdvantages(yield* Effect.forEach(["a", "b", "alone"], get))
      assert.deepStrictEqual(
        compared.map(({ advantage }) => advantage),
        [1, -1, undefined]
      )
      const exported = yield* Effect.forEach(compared, (episode) =>
        Effect.fromResult(EpisodeExport.toScoredEpisode(episode))
      )
      assert.deepStrictEqual(
        exported.map(({ advantages }) => advantages),
        [[0, 1], [0, -1], undefined]
      )
    }).pipe(Effect.provide(memory))
  )

  it.effect("log probabilities of a reference belong to every token, or the export is refused", () =>
    Effect.gen(function* () {
      const { call, finish, note, open } = yield* Episodes
      yield* open({ rollout_id: "r" }, "m")
      yield* call("r", request(user("hi")), () => Effect.succeed(vllm("x", [1], [2])))
      yield* finish("r", { reward: 1 })
      yield* note("r", { reference: [-0.5] })
      assert.include((yield* Effect.flip(scored("r"))).message, "ref_logprobs has 1 values for 2 tokens")
      yield* note("r", { reference: [-0.5, -0.25] })
      assert.deepStrictEqual((yield* scored("r")).ref_logprobs, [-0.5, -0.25])
    }).pipe(Effect.provide(memory))
  )

  it("problems of episodes of others are named", () => {
    const one = {
      rollout_id: "a",
      group_id: "g",
      tokens: [1, 2],
      masks: [-100],
      score: Number.NaN,
      messages: [],
      generation_params: {},
      overrides: {}
    }
    assert.deepStrictEqual(EpisodeExport.findProblems(one), [
      "masks has 1 values for 2 tokens",
      "no token of it is trained",
      "its score is not a number"
    ])
  })

  it("advantages of a group have mean 0, and are 0 where all rewards are the same", () => {
    assert.deepStrictEqual(EpisodeExport.computeAdvantages([0.3, 0.3]), [0, 0])
    assert.strictEqual(
      EpisodeExport.computeAdvantages([1, 2, 6]).reduce((sum, one) => sum + one, 0),
      0
    )
  })
})
