/** @type {(span: Record<string, unknown>) => void} */
const report = (span) => console.log(JSON.stringify(span))

/** @param {import("hermes-effect").Plugin.RegisterContext} ctx */
export const register = (ctx) => {
  ctx.registerHook("pre_api_request", ({ api_request_id, model, request, turn_id }) => {
    report({ span: "llm", at: "start", id: api_request_id, turn: turn_id, model, method: request.method })
  })
  ctx.registerHook("post_api_request", ({ api_duration, api_request_id, response, usage }) => {
    report({ span: "llm", at: "end", id: api_request_id, finish: response.finish_reason, usage, seconds: api_duration })
  })
  ctx.registerHook("pre_tool_call", ({ args, tool_call_id, tool_name }) => {
    report({ span: "tool", at: "start", id: tool_call_id, tool: tool_name, args })
  })
  ctx.registerHook("post_tool_call", ({ duration_ms, result, status, tool_call_id }) => {
    report({ span: "tool", at: "end", id: tool_call_id, status, result, millis: duration_ms })
  })
}
