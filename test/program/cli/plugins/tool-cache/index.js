/** @param {import("hermes-effect").Plugin.RegisterContext<{ readonly tools: ReadonlyArray<string> }>} ctx */
export const register = (ctx) => {
  const results = new Map()
  ctx.registerMiddleware("wrap_tool_call", async ({ args, next_call, tool_name }) => {
    if (!ctx.config.tools.includes(tool_name)) return next_call(args)
    const key = JSON.stringify([tool_name, args])
    if (!results.has(key)) results.set(key, await next_call(args))
    return results.get(key)
  })
}
