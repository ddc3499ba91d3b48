// An editor by the official client library of ACP: what it has not saved, what it answers, and what it saw.
import * as acp from "@agentclientprotocol/sdk/unstable"

type Update = acp.SessionUpdate

const encoder = new TextEncoder()

/**
 * Connects an editor. `answers` are those to questions for a permission, in their order: an option, or `hold` to wait
 * until the question is taken back. Without one it is dismissed; so are forms, whose answers are `filled`.
 */
export const make = (
  writable: WritableStream<Uint8Array>,
  readable: ReadableStream<Uint8Array>,
  unsaved = new Map<string, string>()
) => {
  const updates: Array<readonly [session: string, update: Update]> = []
  const written: Array<readonly [path: string, content: string]> = []
  const asked: Array<acp.RequestPermissionRequest> = []
  const answers: Array<string> = []
  const forms: Array<acp.CreateElicitationRequest> = []
  const filled: Array<acp.CreateElicitationResponse> = []
  let choose = (_: acp.RequestPermissionRequest): string | undefined => answers.shift()
  let takenBack = 0
  let wire = ""
  const seen = readable.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: (bytes, controller) => {
        wire += Buffer.from(bytes).toString("utf8")
        controller.enqueue(bytes)
      }
    })
  )
  const lines = new TransformStream<Uint8Array, Uint8Array>()
  const writer = writable.getWriter()
  const forward = async (): Promise<void> => {
    const reader = lines.readable.getReader()
    for (let next = await reader.read(); !next.done; next = await reader.read()) await writer.write(next.value)
  }
  // It ends with the stream to the agent.
  forward().catch(() => undefined)
  const held = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve) =>
      signal.addEventListener("abort", () => {
        takenBack++
        resolve()
      })
    )

  let files: "served" | "refused" | "held" = "served"
  const fileAsked = async (signal: AbortSignal): Promise<void> => {
    if (files === "refused") throw acp.RequestError.internalError(undefined, "the buffers are locked")
    if (files !== "held") return
    await held(signal)
    throw acp.RequestError.requestCancelled()
  }

  const client = acp
    .client({ name: "editor" })
    .onRequest(acp.CLIENT_METHODS.fs_read_text_file, async ({ params, signal }) => {
      await fileAsked(signal)
      const content = unsaved.get(params.path)
      if (content === undefined) throw acp.RequestError.resourceNotFound(params.path)
      return { content }
    })
    .onRequest(acp.CLIENT_METHODS.fs_write_text_file, async ({ params, signal }) => {
      await fileAsked(signal)
      written.push([params.path, params.content])
      unsaved.set(params.path, params.content)
      return {}
    })
    .onRequest(acp.CLIENT_METHODS.session_request_permission, async ({ params, signal }) => {
      asked.push(params)
      const optionId = choose(params)
      if (optionId === "hold") await held(signal)
      return {
        outcome:
          optionId === undefined || optionId === "hold"
            ? { outcome: "cancelled" as const }
            : { outcome: "selected" as const, optionId }
      }
    })
    .onRequest(acp.CLIENT_METHODS.elicitation_create, ({ params }) => {
      forms.push(params)
      return filled.shift() ?? { action: "cancel" as const }
    })
    .onNotification(
      acp.CLIENT_METHODS.session_update,
      ({ params }) => void updates.push([params.sessionId, params.update])
    )
  const connection = client.connect(acp.ndJsonStream(lines.writable, seen))
  // The library tells of updates behind the answer that came after them.
  const told = <A>(work: Promise<A>): Promise<A> => work.finally(() => new Promise((resolve) => setImmediate(resolve)))
  const ask = <M extends acp.AgentRequestMethod>(method: M, params: acp.AgentRequestParamsByMethod[M]) =>
    told(connection.agent.request(method, params))
  const failing = (work: Promise<unknown>): Promise<{ readonly code: number; readonly message: string }> =>
    told(work).then(
      (value) => Promise.reject(new Error(`it worked: ${JSON.stringify(value)}`)),
      (error: unknown) => {
        if (error instanceof acp.RequestError) return { code: error.code, message: error.message }
        throw error
      }
    )
  const of = <T extends Update["sessionUpdate"]>(session: string, type: T) =>
    updates.flatMap(([id, update]) =>
      id === session && update.sessionUpdate === type ? [update as Extract<Update, { readonly sessionUpdate: T }>] : []
    )
  const textOf = (
    session: string,
    type: "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk" = "agent_message_chunk"
  ): string =>
    of(session, type)
      .map(({ content }) => (content.type === "text" ? content.text : ""))
      .join("")
  return {
    answers,
    ask,
    asked,
    /** Has a function answer questions for a permission, instead of `answers`. */
    choose: (answer: typeof choose) => {
      choose = answer
    },
    connection,
    /** Has requests for files refused, or held until they are taken back. */
    setFiles: (answer: typeof files) => {
      files = answer
    },
    failing,
    filled,
    forms,
    of,
    /** Sends a line as it is, between those of the library. */
    raw: (line: string) => writer.write(encoder.encode(`${line}\n`)),
    /** Ends the stream to the agent. */
    hangUp: () => writer.close(),
    takenBack: () => takenBack,
    textOf,
    updates,
    wire: () => wire,
    written
  }
}

/** A prompt of one text. */
export const say = (text: string): Array<acp.ContentBlock> => [{ type: "text", text }]
