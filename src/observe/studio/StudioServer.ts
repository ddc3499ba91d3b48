/**
 * The studio's HTTP server. It serves the sessions of a store to a browser on the same machine, as lists, totals,
 * pages, event streams and datasets.
 *
 * **Details**
 *
 * It listens on the loopback address. The first request presents the token in the URL and receives a cookie. Every
 * other request must present this cookie, or the token as a bearer token. A request whose `Host` or `Origin` is not the
 * name of this server is rejected, so that a page on another site cannot gain access through DNS rebinding. Writes are
 * rejected unless they are enabled.
 *
 * Secrets are removed from all text in a response. Images are served with their type, and only if the type cannot
 * contain scripts.
 */
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as Scope from "effect/Scope"
import * as HttpIncomingMessage from "effect/http/HttpIncomingMessage"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as LoopbackServer from "../../base/platform/LoopbackServer.ts"
import { RunRecord } from "../../store/RunRecord.ts"
import { SessionActivity } from "../../store/SessionActivity.ts"
import { SessionSearch } from "../../store/SessionSearch.ts"
import { SessionInbox } from "../../store/SessionInbox.ts"
import { type Session, SessionStore } from "../../store/SessionStore.ts"
import * as SessionExport from "../../store/SessionExport.ts"
import * as StoredMask from "../../store/StoredMask.ts"
import * as Unread from "../../store/Unread.ts"
import * as StoredRuns from "../StoredRuns.ts"
import * as Aggregation from "./Aggregation.ts"
import * as SessionDetails from "./SessionDetails.ts"
import * as SessionExports from "./SessionExports.ts"
import * as SessionIndex from "./SessionIndex.ts"
import * as SessionMessages from "./SessionMessages.ts"
import * as SessionQueries from "./SessionQueries.ts"
import type { About, SessionDetail, SessionQuery } from "./StudioApi.ts"
import * as StudioEvents from "./StudioEvents.ts"
import * as StudioRequests from "./StudioRequests.ts"
import * as StudioResponses from "./StudioResponses.ts"
import * as StudioSteering from "./StudioSteering.ts"
import * as StudioWrites from "./StudioWrites.ts"
import * as WorkflowView from "./WorkflowView.ts"

/** Services that the studio reads. */
export type Needs = SessionStore | SessionSearch | SessionActivity | SessionInbox | RunRecord

/** Settings of a server. */
export interface Options extends Pick<About, "home" | "models" | "version"> {
  /** Port to listen on; 0 selects any free port. */
  readonly port: number
  /** Tests whether the store exists yet. */
  readonly exists: Effect.Effect<boolean>
  /** Function that runs sessions again. Absent if writes are not allowed. */
  readonly replay?: StudioWrites.Replay | undefined
  /** Stores answers to the questions of suspended runs. If absent, these questions are not shown. */
  readonly storeAnswers?: StudioSteering.StoreAnswers | undefined
}

/** A running server. */
export interface Studio {
  /** Address of the server, including the token. */
  readonly url: string
}

/** Maximum number of matches of a text search. */
const mostHits = 5000

/** Maximum number of session details that are cached, so that streams can continue from them. */
const keptDetails = 8

const makeNotFound = (what: string): StudioRequests.Refusal =>
  new StudioRequests.Refusal({ status: 404, message: what })

/** Serves the studio until the scope closes. Fails with the operating system's reason if the port cannot be used. */
export const serve = (options: Options): Effect.Effect<Studio, string, Needs | Scope.Scope> =>
  Effect.gen(function* () {
    const store = yield* SessionStore
    const search = yield* SessionSearch
    const activity = yield* SessionActivity
    const record = yield* RunRecord
    const clean = yield* StoredMask.textForExport
    const context = yield* Effect.context<Needs>()
    const index = yield* SessionIndex.make(options.exists)
    const news = yield* StudioEvents.watch(index)
    // Reading a long record takes seconds, so it starts before the first request. If it fails, each later request
    // reports the failure.
    yield* Effect.forkScoped(Effect.ignore(index.refresh))
    const server = yield* LoopbackServer.open(options.port)
    const { port } = server
    const keys = yield* LoopbackServer.makeKeys(port)

    const getSession = (world: SessionQueries.World, id: string): Effect.Effect<Session, StudioRequests.Refusal> => {
      const session = world.sessions.get(id)
      return session === undefined
        ? Effect.fail(
            makeNotFound(
              `There is no session ${JSON.stringify(id)}: it was removed, or the address is wrong. Go back to the list.`
            )
          )
        : Effect.succeed(session)
    }

    /** Counts of unreadable entries, by the id of a session that was shown. */
    const unread = new Map<string, Unread.Unread>()
    /**
     * Reads a session. Counting unreadable entries reads the whole record again, so they are not counted again while
     * the page follows the session.
     */
    const readSource = (
      session: Session,
      isFollowed = false
    ): Effect.Effect<SessionDetails.Source, SessionStoreError> =>
      Effect.gen(function* () {
        const tree = yield* StoredRuns.read(session)
        const stored = yield* store.get(session.id)
        const systemPrompt = Option.isSome(stored) ? clean(stored.value.systemPrompt) : ""
        const count = isFollowed ? unread.get(session.id) : undefined
        unread.set(session.id, count ?? (yield* StoredRuns.countUnread(session.id, tree)))
        return { session, tree, systemPrompt, unread: unread.get(session.id) ?? Unread.none }
      }).pipe(Effect.provide(context))

    const details = new Map<string, SessionDetail>()
    const keepDetail = (detail: SessionDetail): SessionDetail => {
      const key = `${detail.summary.id} ${detail.sequence}`
      details.delete(key)
      details.set(key, detail)
      for (const old of Array.from(details.keys()).slice(0, -keptDetails)) details.delete(old)
      return detail
    }
    const readDetail = (world: SessionQueries.World, id: string, isFollowed = false) =>
      getSession(world, id).pipe(
        Effect.flatMap((session) => readSource(session, isFollowed)),
        Effect.flatMap((source) => SessionDetails.buildDetail(world, source)),
        Effect.map(keepDetail)
      )

    const searchMessages = ({ q = "" }: SessionQuery) =>
      q.trim() === ""
        ? Effect.succeed(new Set<string>())
        : Effect.map(
            search.search(q, { limit: mostHits }),
            (hits) => new Set<string>(hits.map(({ sessionId }) => sessionId))
          )

    const readSearch = Effect.fnUntraced(function* (parameters: URLSearchParams, more: ReadonlyArray<string> = []) {
      const query = yield* StudioRequests.readQuery(parameters, more)
      const world = yield* index.current
      const hits = world.sessions.size === 0 ? new Set<string>() : yield* searchMessages(query)
      return { query, world, hits }
    })

    const compareSessions = Effect.fnUntraced(function* (parameters: URLSearchParams) {
      const world = yield* index.current
      const readSide = (name: "left" | "right") => {
        const id = parameters.get(name)
        return id === null
          ? Effect.fail(StudioRequests.makeBadRequest(`${name} is missing: it is the id of a session`))
          : Effect.map(
              Effect.flatMap(getSession(world, id), (session) => readSource(session)),
              (source) => [source, parameters.get(`${name}Run`) ?? undefined] as const
            )
      }
      const comparison = yield* SessionDetails.compare(world, yield* readSide("left"), yield* readSide("right"))
      return comparison === undefined
        ? yield* makeNotFound(
            "One of the sessions has no such run: leave out leftRun and rightRun to compare whole sessions."
          )
        : StudioResponses.makeJsonResponse(comparison)
    })

    const exportSessions = Effect.fnUntraced(function* (parameters: URLSearchParams) {
      const format = yield* StudioRequests.readFormat(parameters)
      const isArchive = yield* StudioRequests.readArchiveFlag(parameters)
      const ids = parameters.getAll("id")
      const { hits, query, world } = yield* readSearch(parameters, ["format", "archive", "id"])
      const summaries =
        ids.length === 0
          ? SessionQueries.find(world, query, hits)
          : yield* Effect.forEach(ids, (id) =>
              Effect.map(getSession(world, id), (session) => SessionQueries.summarize(world, session))
            )
      const next = new Map(
        Array.from(world.sessions.values()).flatMap(({ continues, id }) =>
          continues === undefined ? [] : [[continues, id] as const]
        )
      )
      const renderLine = (summary: (typeof summaries)[number]) =>
        Effect.gen(function* () {
          const session = yield* getSession(world, summary.id)
          if (format === "jsonl") {
            const stored = yield* store.get(session.id)
            return Option.isSome(stored) ? yield* SessionExport.readWithRecord(stored.value) : undefined
          }
          const tree = yield* StoredRuns.read(session)
          return format === "atif"
            ? SessionExports.exportTrajectory(tree, summary, next.get(session.id))
            : SessionExports.toShareGpt(tree, summary)
        }).pipe(
          Effect.provide(context),
          Effect.map((line) => (line === undefined ? "" : `${JSON.stringify(line)}\n`))
        )
      // The first line is read before the response begins, so that its status can report a store that cannot be read.
      const [first, ...rest] = summaries
      const head = first === undefined ? undefined : { summary: first, line: yield* renderLine(first) }
      const lines = Stream.concat(
        Stream.fromIterable(head === undefined ? [] : [head]),
        Stream.mapEffect(Stream.fromIterable(rest), (summary) =>
          Effect.map(renderLine(summary), (line) => ({ summary, line }))
        )
      )
      const makeAttachmentHeaders = (end: string) => ({
        "content-disposition": `attachment; filename="hermes-${format}.${end}"`
      })
      if (!isArchive) {
        return HttpServerResponse.stream(Stream.encodeText(Stream.map(lines, ({ line }) => line)), {
          contentType: "application/x-ndjson; charset=utf-8",
          headers: makeAttachmentHeaders("jsonl")
        })
      }
      const files = lines.pipe(
        Stream.filter(({ line }) => line !== ""),
        Stream.map(({ line, summary }) => ({
          name: SessionExports.formatFileName(format, summary),
          content: line,
          changedAt: summary.activeAt
        }))
      )
      return HttpServerResponse.stream(SessionExport.writeArchive(files), {
        contentType: "application/gzip",
        headers: makeAttachmentHeaders("tar.gz")
      })
    })

    const writes = options.replay === undefined ? undefined : StudioWrites.make(options.replay, news.wake)
    const handleWrite = Effect.fnUntraced(function* (id: string, what: string, request: HttpServerRequest) {
      if (writes === undefined) {
        return yield* new StudioRequests.Refusal({
          status: 403,
          message:
            "This studio is read-only: start it with hermes trace serve --write to allow replays, scores, notes and " +
            "messages to running turns."
        })
      }
      const type = request.headers["content-type"] ?? ""
      if (!/^application\/json\s*(?:;|$)/iu.test(type))
        return yield* StudioRequests.makeBadRequest("send the body with content-type: application/json")
      const body = yield* request.text.pipe(
        Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(StudioRequests.longestBody)),
        Effect.mapError(
          () =>
            new StudioRequests.Refusal({
              status: 413,
              message: `the body cannot be read, or is longer than ${StudioRequests.longestBody} bytes`
            })
        )
      )
      const world = yield* index.refresh
      const session = yield* getSession(world, id)
      const target: StudioWrites.Target = { session, facts: world.facts.get(id) }
      const work: Effect.Effect<unknown, StudioRequests.Refusal | SessionStoreError, Needs> = StudioSteering.isAction(
        what
      )
        ? StudioSteering.runAction(what, session.id, body, options.storeAnswers)
        : what === "replay"
          ? Effect.flatMap(StudioRequests.replay(body), (wanted) => writes.replay(target, wanted))
          : what === "scores"
            ? Effect.flatMap(StudioRequests.score(body), (score) => writes.score(target, score))
            : Effect.flatMap(StudioRequests.note(body), (note) => writes.note(target, note))
      const answer = yield* Effect.provide(work, context)
      yield* index.refresh
      yield* news.wake
      return StudioResponses.makeJsonResponse(answer, StudioSteering.isAction(what) ? 200 : 201)
    })

    const about: Effect.Effect<About, SessionStoreError> = Effect.gen(function* () {
      const world = yield* index.current
      const { damaged, newer } = world.sessions.size === 0 ? Unread.none : yield* record.unread()
      return {
        version: options.version,
        home: options.home,
        write: writes !== undefined,
        unread: newer + damaged,
        models: options.models
      }
    })

    /**
     * Reads a message of a session from the record, which can report an unreadable message. If the session is older
     * than the record, it is read from the store.
     */
    const readMessageAt = Effect.fnUntraced(function* ({ id }: Session, position: number) {
      const recorded = yield* record.read({ sessionId: id, kinds: ["MessageAppended"] }).pipe(
        Stream.flatMap(({ event }) =>
          event._tag === "MessageAppended" && event.position === position && event.message !== undefined
            ? Stream.succeed(event.message)
            : Stream.empty
        ),
        Stream.runHead
      )
      return Option.isSome(recorded)
        ? recorded.value
        : (yield* store.messages(id, { from: position, to: position + 1 }))[0]
    })

    const serveImage = Effect.fnUntraced(function* (id: string, name: string) {
      const world = yield* index.current
      const session = yield* getSession(world, id)
      const place = SessionMessages.parseImagePlace(name)
      const message = place === undefined ? undefined : yield* readMessageAt(session, place.position)
      const shown =
        place === undefined || message === undefined ? undefined : SessionMessages.findImage(message, place.index)
      return shown === undefined
        ? yield* makeNotFound("There is no such image.")
        : HttpServerResponse.uint8Array(shown.bytes, { contentType: shown.mediaType })
    })

    const serveWorkflow = Effect.fnUntraced(function* (id: string) {
      const session = yield* getSession(yield* index.current, id)
      const entries = yield* Stream.runCollect(record.read({ sessionId: session.id, kinds: WorkflowView.kinds }))
      const view = WorkflowView.makeWorkflowView(entries)
      return view === undefined
        ? yield* makeNotFound("This session is not an execution of a workflow.")
        : StudioResponses.makeJsonResponse(view)
    })

    const streamEvents = Effect.fnUntraced(function* (parameters: URLSearchParams, request: HttpServerRequest) {
      const after = yield* StudioRequests.readSequence(request.headers["last-event-id"] ?? parameters.get("after"))
      const id = parameters.get("session")
      if (id === null) return StudioEvents.respond(StudioEvents.streamSessions(news, after))
      const world = yield* index.current
      yield* getSession(world, id)
      const before = after === undefined ? undefined : details.get(`${id} ${after}`)
      const events = StudioEvents.streamSession(news, id, before, (now) => readDetail(now, id, true))
      if (writes === undefined) return StudioEvents.respond(events)
      const questions = Stream.provideContext(
        StudioSteering.streamQuestions(id, options.storeAnswers !== undefined),
        context
      )
      return StudioEvents.respond(Stream.merge(events, questions))
    })

    const routeRequest = Effect.fnUntraced(function* (request: HttpServerRequest, url: URL) {
      const { pathname, searchParams } = url
      const [, session = "", action = "", name = ""] =
        /^\/api\/sessions\/([^/]+)(?:\/([a-z]+)(?:\/([^/]+))?)?$/u.exec(pathname) ?? []
      const id =
        session === ""
          ? ""
          : yield* Effect.try({
              try: () => decodeURIComponent(session),
              catch: () => makeNotFound("There is nothing at this address.")
            })
      if (request.method === "POST") {
        return ["replay", "scores", "notes", ...StudioSteering.actions].includes(action) && name === ""
          ? yield* handleWrite(id, action, request)
          : yield* makeNotFound("There is nothing to write at this address.")
      }
      if (request.method !== "GET" && request.method !== "HEAD") {
        return yield* new StudioRequests.Refusal({
          status: 405,
          message: `${request.method} is not supported: use GET or POST`
        })
      }
      const file = StudioResponses.findPageFile(pathname)
      if (file !== undefined) return file
      switch (pathname) {
        case "/api/about":
          return StudioResponses.makeJsonResponse(yield* about)
        case "/api/sessions": {
          const { hits, query, world } = yield* readSearch(searchParams)
          return StudioResponses.makeJsonResponse(SessionQueries.list(world, query, hits))
        }
        case "/api/aggregates": {
          const { hits, query, world } = yield* readSearch(searchParams)
          const spoken =
            world.sessions.size === 0
              ? new Map()
              : yield* activity.spoken({ since: query.since ?? 0, until: query.until ?? Number.MAX_SAFE_INTEGER })
          return StudioResponses.makeJsonResponse(
            yield* Aggregation.aggregate(world, SessionQueries.find(world, query, hits), query, spoken)
          )
        }
        case "/api/compare":
          return yield* compareSessions(searchParams)
        case "/api/export":
          return yield* exportSessions(searchParams)
        case "/api/events":
          return yield* streamEvents(searchParams, request)
      }
      if (id !== "" && action === "")
        return StudioResponses.makeJsonResponse(yield* readDetail(yield* index.current, id))
      if (id !== "" && action === "workflow" && name === "") return yield* serveWorkflow(id)
      if (id !== "" && action === "images" && name !== "") return yield* serveImage(id, name)
      return yield* makeNotFound("There is nothing at this address.")
    })

    const guardRequest = Effect.fnUntraced(function* (request: HttpServerRequest) {
      const { host = "" } = request.headers
      if (!LoopbackServer.isOwnName(port, request.headers)) {
        return yield* new StudioRequests.Refusal({
          status: 403,
          message:
            `This server answers only at http://127.0.0.1:${port}: ` +
            `open the address that hermes trace serve printed.`
        })
      }
      const url = yield* Effect.try({
        try: () => new URL(request.url, `http://${host}`),
        catch: () => makeNotFound("There is nothing at this address.")
      })
      const given = url.pathname === "/" ? url.searchParams.get("token") : null
      if (given !== null && request.method === "GET" && keys.isToken(given)) {
        return HttpServerResponse.empty({ status: 303, headers: { location: "/", "set-cookie": keys.setCookie } })
      }
      if (!keys.admits(request)) {
        return yield* new StudioRequests.Refusal({
          status: 401,
          message: "The token is missing or wrong: open the address that hermes trace serve printed."
        })
      }
      return yield* routeRequest(request, url)
    })

    const handler = Effect.gen(function* () {
      const request = yield* HttpServerRequest
      return yield* guardRequest(request)
    }).pipe(
      Effect.catchTags({
        Refusal: ({ message, status }) => Effect.succeed(StudioResponses.makeProblem(status, message)),
        SessionStoreError: ({ message }) => Effect.succeed(StudioResponses.makeProblem(503, message))
      }),
      Effect.map(StudioResponses.addSafetyHeaders)
    )
    yield* server.serve(handler)
    return { url: `http://127.0.0.1:${port}/?token=${keys.token}` }
  })
