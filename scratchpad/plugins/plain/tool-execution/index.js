/** @param {import("hermes-effect").Plugin.RegisterContext} ctx */
export const register = (ctx) => {
  ctx.registerMiddleware("tool_execution", async ({ args, next_call }) => {
    const result = await next_call(args)
    // Metrics, logging, or external routing can happen here.
    return result
  })
}
