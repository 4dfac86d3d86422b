var lt=globalThis,ht=lt.ShadowRoot&&(lt.ShadyCSS===void 0||lt.ShadyCSS.nativeShadow)&&"adoptedStyleSheets"in Document.prototype&&"replace"in CSSStyleSheet.prototype,Kt=Symbol(),Vt=new WeakMap,ct=class{constructor(t,e,s){if(this._$cssResult$=!0,s!==Kt)throw Error("CSSResult is not constructable. Use `unsafeCSS` or `css` instead.");this.cssText=t,this.t=e}get styleSheet(){let t=this.o,e=this.t;if(ht&&t===void 0){let s=e!==void 0&&e.length===1;s&&(t=Vt.get(e)),t===void 0&&((this.o=t=new CSSStyleSheet).replaceSync(this.cssText),s&&Vt.set(e,t))}return t}toString(){return this.cssText}},zt=r=>new ct(typeof r=="string"?r:r+"",void 0,Kt);var Gt=(r,t)=>{if(ht)r.adoptedStyleSheets=t.map(e=>e instanceof CSSStyleSheet?e:e.styleSheet);else for(let e of t){let s=document.createElement("style"),n=lt.litNonce;n!==void 0&&s.setAttribute("nonce",n),s.textContent=e.cssText,r.appendChild(s)}},_t=ht?r=>r:r=>r instanceof CSSStyleSheet?(t=>{let e="";for(let s of t.cssRules)e+=s.cssText;return zt(e)})(r):r;var{is:Ve,defineProperty:Ke,getOwnPropertyDescriptor:ze,getOwnPropertyNames:Ge,getOwnPropertySymbols:Ye,getPrototypeOf:Qe}=Object,dt=globalThis,Yt=dt.trustedTypes,Xe=Yt?Yt.emptyScript:"",Ze=dt.reactiveElementPolyfillSupport,Y=(r,t)=>r,St={toAttribute(r,t){switch(t){case Boolean:r=r?Xe:null;break;case Object:case Array:r=r==null?r:JSON.stringify(r)}return r},fromAttribute(r,t){let e=r;switch(t){case Boolean:e=r!==null;break;case Number:e=r===null?null:Number(r);break;case Object:case Array:try{e=JSON.parse(r)}catch{e=null}}return e}},Xt=(r,t)=>!Ve(r,t),Qt={attribute:!0,type:String,converter:St,reflect:!1,useDefault:!1,hasChanged:Xt};Symbol.metadata??=Symbol("metadata"),dt.litPropertyMetadata??=new WeakMap;var P=class extends HTMLElement{static addInitializer(t){this._$Ei(),(this.l??=[]).push(t)}static get observedAttributes(){return this.finalize(),this._$Eh&&[...this._$Eh.keys()]}static createProperty(t,e=Qt){if(e.state&&(e.attribute=!1),this._$Ei(),this.prototype.hasOwnProperty(t)&&((e=Object.create(e)).wrapped=!0),this.elementProperties.set(t,e),!e.noAccessor){let s=Symbol(),n=this.getPropertyDescriptor(t,s,e);n!==void 0&&Ke(this.prototype,t,n)}}static getPropertyDescriptor(t,e,s){let{get:n,set:i}=ze(this.prototype,t)??{get(){return this[e]},set(o){this[e]=o}};return{get:n,set(o){let a=n?.call(this);i?.call(this,o),this.requestUpdate(t,a,s)},configurable:!0,enumerable:!0}}static getPropertyOptions(t){return this.elementProperties.get(t)??Qt}static _$Ei(){if(this.hasOwnProperty(Y("elementProperties")))return;let t=Qe(this);t.finalize(),t.l!==void 0&&(this.l=[...t.l]),this.elementProperties=new Map(t.elementProperties)}static finalize(){if(this.hasOwnProperty(Y("finalized")))return;if(this.finalized=!0,this._$Ei(),this.hasOwnProperty(Y("properties"))){let e=this.properties,s=[...Ge(e),...Ye(e)];for(let n of s)this.createProperty(n,e[n])}let t=this[Symbol.metadata];if(t!==null){let e=litPropertyMetadata.get(t);if(e!==void 0)for(let[s,n]of e)this.elementProperties.set(s,n)}this._$Eh=new Map;for(let[e,s]of this.elementProperties){let n=this._$Eu(e,s);n!==void 0&&this._$Eh.set(n,e)}this.elementStyles=this.finalizeStyles(this.styles)}static finalizeStyles(t){let e=[];if(Array.isArray(t)){let s=new Set(t.flat(1/0).reverse());for(let n of s)e.unshift(_t(n))}else t!==void 0&&e.push(_t(t));return e}static _$Eu(t,e){let s=e.attribute;return s===!1?void 0:typeof s=="string"?s:typeof t=="string"?t.toLowerCase():void 0}constructor(){super(),this._$Ep=void 0,this.isUpdatePending=!1,this.hasUpdated=!1,this._$Em=null,this._$Ev()}_$Ev(){this._$ES=new Promise(t=>this.enableUpdating=t),this._$AL=new Map,this._$E_(),this.requestUpdate(),this.constructor.l?.forEach(t=>t(this))}addController(t){(this._$EO??=new Set).add(t),this.renderRoot!==void 0&&this.isConnected&&t.hostConnected?.()}removeController(t){this._$EO?.delete(t)}_$E_(){let t=new Map,e=this.constructor.elementProperties;for(let s of e.keys())this.hasOwnProperty(s)&&(t.set(s,this[s]),delete this[s]);t.size>0&&(this._$Ep=t)}createRenderRoot(){let t=this.shadowRoot??this.attachShadow(this.constructor.shadowRootOptions);return Gt(t,this.constructor.elementStyles),t}connectedCallback(){this.renderRoot??=this.createRenderRoot(),this.enableUpdating(!0),this._$EO?.forEach(t=>t.hostConnected?.())}enableUpdating(t){}disconnectedCallback(){this._$EO?.forEach(t=>t.hostDisconnected?.())}attributeChangedCallback(t,e,s){this._$AK(t,s)}_$ET(t,e){let s=this.constructor.elementProperties.get(t),n=this.constructor._$Eu(t,s);if(n!==void 0&&s.reflect===!0){let i=(s.converter?.toAttribute!==void 0?s.converter:St).toAttribute(e,s.type);this._$Em=t,i==null?this.removeAttribute(n):this.setAttribute(n,i),this._$Em=null}}_$AK(t,e){let s=this.constructor,n=s._$Eh.get(t);if(n!==void 0&&this._$Em!==n){let i=s.getPropertyOptions(n),o=typeof i.converter=="function"?{fromAttribute:i.converter}:i.converter?.fromAttribute!==void 0?i.converter:St;this._$Em=n;let a=o.fromAttribute(e,i.type);this[n]=a??this._$Ej?.get(n)??a,this._$Em=null}}requestUpdate(t,e,s,n=!1,i){if(t!==void 0){let o=this.constructor;if(n===!1&&(i=this[t]),s??=o.getPropertyOptions(t),!((s.hasChanged??Xt)(i,e)||s.useDefault&&s.reflect&&i===this._$Ej?.get(t)&&!this.hasAttribute(o._$Eu(t,s))))return;this.C(t,e,s)}this.isUpdatePending===!1&&(this._$ES=this._$EP())}C(t,e,{useDefault:s,reflect:n,wrapped:i},o){s&&!(this._$Ej??=new Map).has(t)&&(this._$Ej.set(t,o??e??this[t]),i!==!0||o!==void 0)||(this._$AL.has(t)||(this.hasUpdated||s||(e=void 0),this._$AL.set(t,e)),n===!0&&this._$Em!==t&&(this._$Eq??=new Set).add(t))}async _$EP(){this.isUpdatePending=!0;try{await this._$ES}catch(e){Promise.reject(e)}let t=this.scheduleUpdate();return t!=null&&await t,!this.isUpdatePending}scheduleUpdate(){return this.performUpdate()}performUpdate(){if(!this.isUpdatePending)return;if(!this.hasUpdated){if(this.renderRoot??=this.createRenderRoot(),this._$Ep){for(let[n,i]of this._$Ep)this[n]=i;this._$Ep=void 0}let s=this.constructor.elementProperties;if(s.size>0)for(let[n,i]of s){let{wrapped:o}=i,a=this[n];o!==!0||this._$AL.has(n)||a===void 0||this.C(n,void 0,i,a)}}let t=!1,e=this._$AL;try{t=this.shouldUpdate(e),t?(this.willUpdate(e),this._$EO?.forEach(s=>s.hostUpdate?.()),this.update(e)):this._$EM()}catch(s){throw t=!1,this._$EM(),s}t&&this._$AE(e)}willUpdate(t){}_$AE(t){this._$EO?.forEach(e=>e.hostUpdated?.()),this.hasUpdated||(this.hasUpdated=!0,this.firstUpdated(t)),this.updated(t)}_$EM(){this._$AL=new Map,this.isUpdatePending=!1}get updateComplete(){return this.getUpdateComplete()}getUpdateComplete(){return this._$ES}shouldUpdate(t){return!0}update(t){this._$Eq&&=this._$Eq.forEach(e=>this._$ET(e,this[e])),this._$EM()}updated(t){}firstUpdated(t){}};P.elementStyles=[],P.shadowRootOptions={mode:"open"},P[Y("elementProperties")]=new Map,P[Y("finalized")]=new Map,Ze?.({ReactiveElement:P}),(dt.reactiveElementVersions??=[]).push("2.1.2");var Et=globalThis,Zt=r=>r,pt=Et.trustedTypes,te=pt?pt.createPolicy("lit-html",{createHTML:r=>r}):void 0,Rt="$lit$",C=`lit$${Math.random().toFixed(9).slice(2)}$`,At="?"+C,ts=`<${At}>`,H=document,X=()=>H.createComment(""),Z=r=>r===null||typeof r!="object"&&typeof r!="function",kt=Array.isArray,oe=r=>kt(r)||typeof r?.[Symbol.iterator]=="function",xt=`[ 	
\f\r]`,Q=/<(?:(!--|\/[^a-zA-Z])|(\/?[a-zA-Z][^>\s]*)|(\/?$))/g,ee=/-->/g,se=/>/g,N=RegExp(`>|${xt}(?:([^\\s"'>=/]+)(${xt}*=${xt}*(?:[^ 	
\f\r"'\`<>=]|("|')|))|$)`,"g"),re=/'/g,ne=/"/g,ae=/^(?:script|style|textarea|title)$/i,Tt=r=>(t,...e)=>({_$litType$:r,strings:t,values:e}),l=Tt(1),le=Tt(2),Js=Tt(3),y=Symbol.for("lit-noChange"),d=Symbol.for("lit-nothing"),ie=new WeakMap,I=H.createTreeWalker(H,129);function ce(r,t){if(!kt(r)||!r.hasOwnProperty("raw"))throw Error("invalid template strings array");return te!==void 0?te.createHTML(t):t}var he=(r,t)=>{let e=r.length-1,s=[],n,i=t===2?"<svg>":t===3?"<math>":"",o=Q;for(let a=0;a<e;a++){let c=r[a],p,m,h=-1,u=0;for(;u<c.length&&(o.lastIndex=u,m=o.exec(c),m!==null);)u=o.lastIndex,o===Q?m[1]==="!--"?o=ee:m[1]!==void 0?o=se:m[2]!==void 0?(ae.test(m[2])&&(n=RegExp("</"+m[2],"g")),o=N):m[3]!==void 0&&(o=N):o===N?m[0]===">"?(o=n??Q,h=-1):m[1]===void 0?h=-2:(h=o.lastIndex-m[2].length,p=m[1],o=m[3]===void 0?N:m[3]==='"'?ne:re):o===ne||o===re?o=N:o===ee||o===se?o=Q:(o=N,n=void 0);let f=o===N&&r[a+1].startsWith("/>")?" ":"";i+=o===Q?c+ts:h>=0?(s.push(p),c.slice(0,h)+Rt+c.slice(h)+C+f):c+C+(h===-2?a:f)}return[ce(r,i+(r[e]||"<?>")+(t===2?"</svg>":t===3?"</math>":"")),s]},tt=class r{constructor({strings:t,_$litType$:e},s){let n;this.parts=[];let i=0,o=0,a=t.length-1,c=this.parts,[p,m]=he(t,e);if(this.el=r.createElement(p,s),I.currentNode=this.el.content,e===2||e===3){let h=this.el.content.firstChild;h.replaceWith(...h.childNodes)}for(;(n=I.nextNode())!==null&&c.length<a;){if(n.nodeType===1){if(n.hasAttributes())for(let h of n.getAttributeNames())if(h.endsWith(Rt)){let u=m[o++],f=n.getAttribute(h).split(C),b=/([.?@])?(.*)/.exec(u);c.push({type:1,index:i,name:b[2],strings:f,ctor:b[1]==="."?mt:b[1]==="?"?ft:b[1]==="@"?gt:j}),n.removeAttribute(h)}else h.startsWith(C)&&(c.push({type:6,index:i}),n.removeAttribute(h));if(ae.test(n.tagName)){let h=n.textContent.split(C),u=h.length-1;if(u>0){n.textContent=pt?pt.emptyScript:"";for(let f=0;f<u;f++)n.append(h[f],X()),I.nextNode(),c.push({type:2,index:++i});n.append(h[u],X())}}}else if(n.nodeType===8)if(n.data===At)c.push({type:2,index:i});else{let h=-1;for(;(h=n.data.indexOf(C,h+1))!==-1;)c.push({type:7,index:i}),h+=C.length-1}i++}}static createElement(t,e){let s=H.createElement("template");return s.innerHTML=t,s}};function D(r,t,e=r,s){if(t===y)return t;let n=s!==void 0?e._$Co?.[s]:e._$Cl,i=Z(t)?void 0:t._$litDirective$;return n?.constructor!==i&&(n?._$AO?.(!1),i===void 0?n=void 0:(n=new i(r),n._$AT(r,e,s)),s!==void 0?(e._$Co??=[])[s]=n:e._$Cl=n),n!==void 0&&(t=D(r,n._$AS(r,t.values),n,s)),t}var ut=class{constructor(t,e){this._$AV=[],this._$AN=void 0,this._$AD=t,this._$AM=e}get parentNode(){return this._$AM.parentNode}get _$AU(){return this._$AM._$AU}u(t){let{el:{content:e},parts:s}=this._$AD,n=(t?.creationScope??H).importNode(e,!0);I.currentNode=n;let i=I.nextNode(),o=0,a=0,c=s[0];for(;c!==void 0;){if(o===c.index){let p;c.type===2?p=new W(i,i.nextSibling,this,t):c.type===1?p=new c.ctor(i,c.name,c.strings,this,t):c.type===6&&(p=new $t(i,this,t)),this._$AV.push(p),c=s[++a]}o!==c?.index&&(i=I.nextNode(),o++)}return I.currentNode=H,n}p(t){let e=0;for(let s of this._$AV)s!==void 0&&(s.strings!==void 0?(s._$AI(t,s,e),e+=s.strings.length-2):s._$AI(t[e])),e++}},W=class r{get _$AU(){return this._$AM?._$AU??this._$Cv}constructor(t,e,s,n){this.type=2,this._$AH=d,this._$AN=void 0,this._$AA=t,this._$AB=e,this._$AM=s,this.options=n,this._$Cv=n?.isConnected??!0}get parentNode(){let t=this._$AA.parentNode,e=this._$AM;return e!==void 0&&t?.nodeType===11&&(t=e.parentNode),t}get startNode(){return this._$AA}get endNode(){return this._$AB}_$AI(t,e=this){t=D(this,t,e),Z(t)?t===d||t==null||t===""?(this._$AH!==d&&this._$AR(),this._$AH=d):t!==this._$AH&&t!==y&&this._(t):t._$litType$!==void 0?this.$(t):t.nodeType!==void 0?this.T(t):oe(t)?this.k(t):this._(t)}O(t){return this._$AA.parentNode.insertBefore(t,this._$AB)}T(t){this._$AH!==t&&(this._$AR(),this._$AH=this.O(t))}_(t){this._$AH!==d&&Z(this._$AH)?this._$AA.nextSibling.data=t:this.T(H.createTextNode(t)),this._$AH=t}$(t){let{values:e,_$litType$:s}=t,n=typeof s=="number"?this._$AC(t):(s.el===void 0&&(s.el=tt.createElement(ce(s.h,s.h[0]),this.options)),s);if(this._$AH?._$AD===n)this._$AH.p(e);else{let i=new ut(n,this),o=i.u(this.options);i.p(e),this.T(o),this._$AH=i}}_$AC(t){let e=ie.get(t.strings);return e===void 0&&ie.set(t.strings,e=new tt(t)),e}k(t){kt(this._$AH)||(this._$AH=[],this._$AR());let e=this._$AH,s,n=0;for(let i of t)n===e.length?e.push(s=new r(this.O(X()),this.O(X()),this,this.options)):s=e[n],s._$AI(i),n++;n<e.length&&(this._$AR(s&&s._$AB.nextSibling,n),e.length=n)}_$AR(t=this._$AA.nextSibling,e){for(this._$AP?.(!1,!0,e);t!==this._$AB;){let s=Zt(t).nextSibling;Zt(t).remove(),t=s}}setConnected(t){this._$AM===void 0&&(this._$Cv=t,this._$AP?.(t))}},j=class{get tagName(){return this.element.tagName}get _$AU(){return this._$AM._$AU}constructor(t,e,s,n,i){this.type=1,this._$AH=d,this._$AN=void 0,this.element=t,this.name=e,this._$AM=n,this.options=i,s.length>2||s[0]!==""||s[1]!==""?(this._$AH=Array(s.length-1).fill(new String),this.strings=s):this._$AH=d}_$AI(t,e=this,s,n){let i=this.strings,o=!1;if(i===void 0)t=D(this,t,e,0),o=!Z(t)||t!==this._$AH&&t!==y,o&&(this._$AH=t);else{let a=t,c,p;for(t=i[0],c=0;c<i.length-1;c++)p=D(this,a[s+c],e,c),p===y&&(p=this._$AH[c]),o||=!Z(p)||p!==this._$AH[c],p===d?t=d:t!==d&&(t+=(p??"")+i[c+1]),this._$AH[c]=p}o&&!n&&this.j(t)}j(t){t===d?this.element.removeAttribute(this.name):this.element.setAttribute(this.name,t??"")}},mt=class extends j{constructor(){super(...arguments),this.type=3}j(t){this.element[this.name]=t===d?void 0:t}},ft=class extends j{constructor(){super(...arguments),this.type=4}j(t){this.element.toggleAttribute(this.name,!!t&&t!==d)}},gt=class extends j{constructor(t,e,s,n,i){super(t,e,s,n,i),this.type=5}_$AI(t,e=this){if((t=D(this,t,e,0)??d)===y)return;let s=this._$AH,n=t===d&&s!==d||t.capture!==s.capture||t.once!==s.once||t.passive!==s.passive,i=t!==d&&(s===d||n);n&&this.element.removeEventListener(this.name,this,s),i&&this.element.addEventListener(this.name,this,t),this._$AH=t}handleEvent(t){typeof this._$AH=="function"?this._$AH.call(this.options?.host??this.element,t):this._$AH.handleEvent(t)}},$t=class{constructor(t,e,s){this.element=t,this.type=6,this._$AN=void 0,this._$AM=e,this.options=s}get _$AU(){return this._$AM._$AU}_$AI(t){D(this,t)}},de={M:Rt,P:C,A:At,C:1,L:he,R:ut,D:oe,V:D,I:W,H:j,N:ft,U:gt,B:mt,F:$t},es=Et.litHtmlPolyfillSupport;es?.(tt,W),(Et.litHtmlVersions??=[]).push("3.3.3");var pe=(r,t,e)=>{let s=e?.renderBefore??t,n=s._$litPart$;if(n===void 0){let i=e?.renderBefore??null;s._$litPart$=n=new W(t.insertBefore(X(),i),i,void 0,e??{})}return n._$AI(r),n};var Pt=globalThis,w=class extends P{constructor(){super(...arguments),this.renderOptions={host:this},this._$Do=void 0}createRenderRoot(){let t=super.createRenderRoot();return this.renderOptions.renderBefore??=t.firstChild,t}update(t){let e=this.render();this.hasUpdated||(this.renderOptions.isConnected=this.isConnected),super.update(t),this._$Do=pe(e,this.renderRoot,this.renderOptions)}connectedCallback(){super.connectedCallback(),this._$Do?.setConnected(!0)}disconnectedCallback(){super.disconnectedCallback(),this._$Do?.setConnected(!1)}render(){return y}};w._$litElement$=!0,w.finalized=!0,Pt.litElementHydrateSupport?.({LitElement:w});var ss=Pt.litElementPolyfillSupport;ss?.({LitElement:w});(Pt.litElementVersions??=[]).push("4.2.2");function ue(r){return Object.entries(r.paths).filter(t=>t[1].get!==void 0).map(([t,{get:e}])=>rs(r,t,e))}function rs(r,t,e){let s=(e.parameters??[]).map(a=>Ct(r,a)),n=s.find(a=>a.name==="_format"),i=e.responses[200]?.content?.["application/x-ndjson"]?.["x-itemSchema"],o=i?Ct(r,i).properties:void 0;return{path:t,summary:e.summary??"",params:s.filter(a=>!a.name.startsWith("_")),controls:new Set(s.map(a=>a.name).filter(a=>a.startsWith("_"))),formats:(n?.schema.enum??[]).map(String),columns:Object.entries(o??{}).map(([a,c])=>({name:a,schema:Ct(r,c)})),needsToken:(e.security??[]).some(a=>Object.keys(a).length>0)}}function Ct(r,t){let e=t.$ref;if(!e)return t;let s=r;for(let n of e.slice(2).split("/"))s=s[n];return s}function et(r){if(r.type==="array")return`list of ${r.items?et(r.items):"anything"}`;let e=(r.anyOf?.map(et)??[r.type??[]].flat()).filter(s=>s!=="null"&&!s.startsWith("one of"));return r.format&&e.length<=1?r.format:e.length?[...new Set(e)].join(" or "):r.enum?`one of ${r.enum.length}`:"any"}var Mt="rowstream.token",x=new URL("./",location.href.split("#")[0]),me=new URL("../",x),M=()=>sessionStorage.getItem(Mt)??"";function fe(r){r?sessionStorage.setItem(Mt,r):sessionStorage.removeItem(Mt)}function v(r,t={}){let e=new Headers(t.headers);return M()&&e.set("Authorization",`Bearer ${M()}`),fetch(r,{...t,headers:e,cache:"no-store",credentials:"omit"})}async function A(r){try{return await r.json()}catch{return{status:r.status,title:r.statusText||`status ${r.status}`}}}async function st(r,t={}){let e=await v(new URL(r,x),t);if(!e.ok)throw await A(e);return await e.json()}var O={ATTRIBUTE:1,CHILD:2,PROPERTY:3,BOOLEAN_ATTRIBUTE:4,EVENT:5,ELEMENT:6},U=r=>(...t)=>({_$litDirective$:r,values:t}),k=class{constructor(t){}get _$AU(){return this._$AM._$AU}_$AT(t,e,s){this._$Ct=t,this._$AM=e,this._$Ci=s}_$AS(t,e){return this.update(t,e)}update(t,e){return this.render(...e)}};var{I:ns}=de,ge=r=>r;var be=r=>r.strings===void 0,$e=()=>document.createComment(""),J=(r,t,e)=>{let s=r._$AA.parentNode,n=t===void 0?r._$AB:t._$AA;if(e===void 0){let i=s.insertBefore($e(),n),o=s.insertBefore($e(),n);e=new ns(i,o,r,r.options)}else{let i=e._$AB.nextSibling,o=e._$AM,a=o!==r;if(a){let c;e._$AQ?.(r),e._$AM=r,e._$AP!==void 0&&(c=r._$AU)!==o._$AU&&e._$AP(c)}if(i!==n||a){let c=e._$AA;for(;c!==i;){let p=ge(c).nextSibling;ge(s).insertBefore(c,n),c=p}}}return e},q=(r,t,e=r)=>(r._$AI(t,e),r),is={},V=(r,t=is)=>r._$AH=t,we=r=>r._$AH,bt=r=>{r._$AR(),r._$AA.remove()};var Ot=U(class extends k{constructor(){super(...arguments),this.key=d}render(r,t){return this.key=r,t}update(r,[t,e]){return t!==this.key&&(V(r),this.key=t),e}});var rt=U(class extends k{constructor(r){if(super(r),r.type!==O.PROPERTY&&r.type!==O.ATTRIBUTE&&r.type!==O.BOOLEAN_ATTRIBUTE)throw Error("The `live` directive is not allowed on child or event bindings");if(!be(r))throw Error("`live` bindings can only contain a single expression")}render(r){return r}update(r,[t]){if(t===y||t===d)return t;let e=r.element,s=r.name;if(r.type===O.PROPERTY){if(t===e[s])return y}else if(r.type===O.BOOLEAN_ATTRIBUTE){if(!!t===e.hasAttribute(s))return y}else if(r.type===O.ATTRIBUTE&&e.getAttribute(s)===t+"")return y;return V(r),t}});var ye=(r,t,e)=>{let s=new Map;for(let n=t;n<=e;n++)s.set(r[n],n);return s},ve=U(class extends k{constructor(r){if(super(r),r.type!==O.CHILD)throw Error("repeat() can only be used in text expressions")}dt(r,t,e){let s;e===void 0?e=t:t!==void 0&&(s=t);let n=[],i=[],o=0;for(let a of r)n[o]=s?s(a,o):o,i[o]=e(a,o),o++;return{values:i,keys:n}}render(r,t,e){return this.dt(r,t,e).values}update(r,[t,e,s]){let n=we(r),{values:i,keys:o}=this.dt(t,e,s);if(!Array.isArray(n))return this.ut=o,i;let a=this.ut??=[],c=[],p,m,h=0,u=n.length-1,f=0,b=i.length-1;for(;h<=u&&f<=b;)if(n[h]===null)h++;else if(n[u]===null)u--;else if(a[h]===o[f])c[f]=q(n[h],i[f]),h++,f++;else if(a[u]===o[b])c[b]=q(n[u],i[b]),u--,b--;else if(a[h]===o[b])c[b]=q(n[h],i[b]),J(r,c[b+1],n[h]),h++,b--;else if(a[u]===o[f])c[f]=q(n[u],i[f]),J(r,n[h],n[u]),u--,f++;else if(p===void 0&&(p=ye(o,f,b),m=ye(a,h,u)),p.has(a[h]))if(p.has(a[u])){let T=m.get(o[f]),vt=T!==void 0?n[T]:null;if(vt===null){let Jt=J(r,n[h]);q(Jt,i[f]),c[f]=Jt}else c[f]=q(vt,i[f]),J(r,n[h],vt),n[T]=null;f++}else bt(n[u]),u--;else bt(n[h]),h++;for(;f<=b;){let T=J(r,c[b+1]);q(T,i[f]),c[f++]=T}for(;h<=u;){let T=n[h++];T!==null&&bt(T)}return this.ut=o,V(r,c),y}});var os=new Intl.NumberFormat("en-US",{maximumFractionDigits:0}),_e=["B","KB","MB","GB","TB"],g=r=>os.format(r);function _(r){let t=0;for(;r>=1e3&&t<_e.length-1;)r/=1e3,t+=1;return`${r<10&&t>0?r.toFixed(1):r.toFixed(0)} ${_e[t]}`}function E(r){if(r<1)return"< 1 ms";if(r<1e3)return`${r.toFixed(0)} ms`;if(r<6e4)return`${(r/1e3).toFixed(1)} s`;let t=Math.floor(r/1e3);return t<3600?`${Math.floor(t/60)} min ${t%60} s`:`${Math.floor(t/3600)} h ${Math.floor(t%3600/60)} min`}var wt=class{constructor(){this.total=0;this.columns=new Map;this.#t=[];this.#e=0;this.#i=!1;this.#n=[];this.#s=0;this.#r=0}#t;#e;#i;#n;#s;#r;push(t){if(this.total+=1,this.total<=200&&this.#a(t),!this.#i){this.#t.push(t),this.#e+=t.length,this.#i=this.#t.length>=1e4||this.#e>=8388608;return}let e=this.#n.at(-1);(!e||e.lines.length>=500||e.text>8388608/16)&&(e={lines:[],text:0},this.#n.push(e)),e.lines.push(t),e.text+=t.length,this.#s+=1,this.#r+=t.length,(this.#s>=10500||this.#r>8388608)&&this.#o()}#o(){if(this.#n.length<2)return;let t=this.#n.shift();this.#s-=t.lines.length,this.#r-=t.text}#a(t){for(let[e,s]of it(t)){let n=Math.max(this.columns.get(e)??e.length,Math.min(s.length,48));this.columns.set(e,n)}}get#l(){return this.total-this.#t.length-this.#s}get length(){return this.#t.length+(this.#l>0?1:0)+this.#s}get text(){return this.#e+this.#r}get kept(){return this.#t.length+this.#s}at(t){if(t<this.#t.length)return{row:t+1,line:this.#t[t]};let e=t-this.#t.length,s=this.#l;if(s>0){if(e===0)return{from:this.#t.length+1,to:this.#t.length+s};e-=1}let n=this.#t.length+s+e+1;for(let i of this.#n){if(e<i.lines.length)return{row:n,line:i.lines[e]};e-=i.lines.length}}cutTo(t){for(;this.total>t;){this.total-=1;let e=this.#n.at(-1);if(!e){this.#e-=this.#t.pop()?.length??0,this.#i=!1;continue}let s=e.lines.pop()?.length??0;e.text-=s,this.#r-=s,this.#s-=1,e.lines.length===0&&this.#n.pop()}}};function it(r){let t=nt(r,0);if(r[t]!=="{")return[["value",r.trim()]];let e=[];for(t=nt(r,t+1);r[t]==='"';){let s=Se(r,t),n=JSON.parse(r.slice(t,s)),i=nt(r,nt(r,s)+1),o=as(r,i);e.push([n,r.slice(i,o).trimEnd()]),t=nt(r,o+1)}return e}function nt(r,t){for(;r[t]===" "||r[t]==="	";)t+=1;return t}function Se(r,t){for(t+=1;t<r.length&&r[t]!=='"';t+=1)r[t]==="\\"&&(t+=1);return t+1}function as(r,t){let e=0;for(;t<r.length;){let s=r[t];if(s==='"'){t=Se(r,t);continue}if(e===0&&(s===","||s==="}"))return t;(s==="{"||s==="[")&&(e+=1),(s==="}"||s==="]")&&(e-=1),t+=1}return t}function xe(r){let t=r[0];return t==='"'?{kind:"text",text:JSON.parse(r)}:t==="{"||t==="["?{kind:"json",text:r}:t==="n"?{kind:"null",text:"null"}:{kind:t==="t"||t==="f"?"boolean":"number",text:r}}var Re=["ndjson","sse","json-seq"],Ee=1e5,ls=4e3,cs=30,K=class{constructor(t,e){this.asked=t;this.changed=e;this.state="waiting";this.why="";this.status=0;this.bytes=0;this.rows=new wt;this.text="";this.#t="";this.started=performance.now();this.stream="";this.timing=[];this.limit=0;this.#e=new AbortController;this.#i="";this.#n=0;this.#s="";this.#o=!1}#t;#e;#i;#n;#s;#r;#o;get isRows(){return this.asked.format==="ndjson"}get isRunning(){return this.state==="waiting"||this.state==="running"}get elapsed(){return(this.ended??performance.now())-this.started}cancel(){this.#o=!0,this.#e.abort()}async start(){await this.#a(this.asked.url)}async resume(){if(!this.mark)return;this.rows.cutTo(this.mark.rows);let t=new URL(this.asked.url);t.searchParams.set("_after",this.mark.next),this.#n=this.rows.total,this.#s="",this.#r=void 0,this.#o=!1,this.#e=new AbortController,this.why="",this.problem=this.report=this.ended=void 0,this.state="waiting",this.changed(),await this.#a(t)}async#a(t){let e=!1,s=async()=>{e||(e=!0,await this.#p().finally(()=>e=!1))},n=setInterval(()=>{s()},1e3);try{await this.#h(t)}catch(i){this.#l(i)}finally{clearInterval(n)}this.ended=performance.now(),this.changed(),await this.#p(this.state==="cancelled"?5:1),this.state==="unproved"&&this.#g(),this.changed()}#l(t){this.#o?this.state="cancelled":this.problem?this.state="failed":this.state==="waiting"?(this.state="failed",this.problem={title:"The server cannot be reached",detail:String(t)}):(this.state="truncated",this.why="the connection ended before the answer did")}async#h(t){let e={headers:this.asked.headers,signal:this.#e.signal},s=await v(t,e);if(this.status=s.status,!s.ok){this.problem=await A(s),this.state="failed";return}this.state="running",this.stream=s.headers.get("Rowstream-Stream")??"",this.#i=s.headers.get("Rowstream-Tag")??"",this.timing=hs(s.headers.get("Server-Timing")),this.changed(),await this.#c(s),this.#f(s)}async#c(t){let e=t.body?.getReader();if(!e)return;let s=new TextDecoder,n=performance.now();for(;;){let{done:i,value:o}=await e.read();if(i)break;this.bytes+=o.byteLength,this.asked.format!=="arrow"&&this.#u(s.decode(o,{stream:!0})),this.limit>0&&await this.#$(o.byteLength),performance.now()-n>cs&&(this.changed(),await new Promise(a=>setTimeout(a)),n=performance.now())}}#u(t){if(!this.isRows){this.text.length<Ee&&(this.text+=t.slice(0,Ee-this.text.length)),this.#t=(this.#t+t).slice(-ls),this.changed();return}let e=(this.#s+t).split(`
`);this.#s=e.pop()??"";for(let s of e)s&&this.#m(s);this.changed()}#m(t){if(this.#i&&t.startsWith(`{"$rowstream":"${this.#i}",`)){this.#d(JSON.parse(t));return}this.firstRow??=performance.now()-this.started,this.rows.push(t)}#d({end:t,mark:e,error:s}){let n=t?.next??e?.next;n&&(this.mark={next:n,rows:this.rows.total}),t&&(this.#r=t),s&&(this.problem=s)}#f(t){let e=`{"$rowstream":"${this.#i}","end":`;if(this.problem)this.state="failed";else if(this.#r||this.#i&&this.#t.includes(e)){let s=this.rows.total-this.#n,n=!this.#r||this.#r.rows===s;this.state=n?"complete":"truncated",n||(this.why=`${s} rows came, and the server sent ${this.#r?.rows}`)}else if(this.#i)this.state="truncated",this.why="it ended without the record of its end";else{let s=t.headers.has("Content-Length")||t.status===204;this.state=s?"complete":"unproved"}}#g(){this.report&&(this.report.state!=="complete"?(this.state="truncated",this.why=`the server says: ${this.report.state}`,this.problem=this.report.error):this.report.bytes===this.bytes&&(this.state="complete"))}async#p(t=0){for(let e=Math.max(t,1);this.stream&&e>0;e-=1){try{let s=await v(new URL(`streams/${this.stream}`,x));if(!s.ok)return;this.report=await s.json()}catch{return}if(this.changed(),t===0||this.report.state!=="running")return;await new Promise(s=>setTimeout(s,200))}}async#$(t){this.changed();for(let e=performance.now();this.limit>0&&!this.#e.signal.aborted;){let s=t/this.limit*1e3-(performance.now()-e);if(s<=0)return;await new Promise(n=>setTimeout(n,Math.min(s,200)))}}};function hs(r){return(r??"").split(",").flatMap(t=>{let e=/^\s*([\w-]+);dur=([\d.]+)/.exec(t);return e?[[e[1],Number(e[2])]]:[]})}function z({title:r,status:t,code:e,detail:s,hint:n,sqlstate:i}){return l`<div class="problem" role="alert">
    <h2>${t?l`<span>${t}</span>`:d} ${r??e??"It failed"}</h2>
    ${s?l`<p>${s}</p>`:d} ${n?l`<p class="hint">${n}</p>`:d}
    <p class="quiet">
      ${e?l`<a href=${new URL(`errors/${e}`,x).href} target="_blank" rel="noreferrer">What ${e} means</a>`:d}
      ${i?l` SQLSTATE ${i}`:d}
    </p>
  </div>`}var Lt=class extends w{static{this.properties={request:{attribute:!1},statements:{state:!0},problem:{state:!0}}}constructor(){super(),this.statements=[]}createRenderRoot(){return this}async#t(){let t=this.request();if(t){this.problem=void 0;try{this.statements=await Ae(t)}catch(e){this.statements=[],this.problem=e instanceof Error?{title:"It cannot be explained",detail:e.message}:e}}}render(){return l`<details class="card plan">
      <summary>SQL and its plan</summary>
      <p>What the database is asked, and how it would run it for these parameters. It is not run.</p>
      <div class="actions"><button type="button" @click=${()=>this.#t()}>Explain</button></div>
      <div role="status">
        ${this.statements.map(({name:t,sql:e,plan:s})=>l`<section aria-label=${t}>
            ${this.statements.length>1?l`<h2>${t}</h2>`:d}
            <pre tabindex="0" role="region" aria-label="SQL of ${t}">${e}</pre>
            <pre tabindex="0" role="region" aria-label="Plan of ${t}">${ds(s)}</pre>
          </section>`)}
      </div>
      ${this.problem?z(this.problem):d}
    </details>`}};async function Ae(r){let t=new URL(r.url);for(let s of["_end","_follow","_after"])t.searchParams.delete(s);t.searchParams.set("_format","json"),t.searchParams.set("_explain","1");let e=await v(t,{headers:r.headers});if(!e.ok)throw await A(e);return(await e.json()).statements}async function ke(r){let t=await Ae(r).catch(()=>[]),e=t.length===1?t[0].plan:[],s=/\brows=(\d+)/.exec(String(e[0]?.["QUERY PLAN"]))?.[1]??(e.length===1?e[0].rows:void 0);return s==null?void 0:Number(s)}function ds(r){let[t]=r;if(!t)return"";if("detail"in t&&"parent"in t)return Te(r,0,"").join(`
`);let e=Object.keys(t),s=r.map(o=>e.map(a=>String(o[a]??"")));if(e.length===1)return s.join(`
`);let n=e.map((o,a)=>Math.max(o.length,...s.map(c=>c[a].length))),i=o=>o.map((a,c)=>a.padEnd(n[c])).join("  ").trimEnd();return[i(e),...s.map(i)].join(`
`)}function Te(r,t,e){return r.filter(s=>s.parent===t).flatMap(s=>[e+String(s.detail),...Te(r,s.id,`${e}  `)])}customElements.define("rs-plan",Lt);function Ce(r,t,e,s){let n=e==="ndjson"&&r.searchParams.has("_end"),i=s?{Authorization:"Bearer $TOKEN",...t}:t;return[{name:"curl",text:ps(r,i,e)},{name:"JavaScript",text:n?ms(r,i):us(r,i)},{name:"Python",text:n?gs(r,i):fs(r,i)}]}var Pe=r=>`'${r.replaceAll("'","'\\''")}'`;function ps(r,t,e){let s=Object.entries(t).map(([i,o])=>o.includes("$TOKEN")?`  -H "${i}: ${o}"`:`  -H ${Pe(`${i}: ${o}`)}`),n=e==="arrow"?["  -o rows.arrows"]:[];return["curl -fsS --compressed",...s,...n,`  ${Pe(r.href)}`].join(` \\
`)}function Me(r){return Object.keys(r).length===0?"":`, { headers: { ${Object.entries(r).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: \`${s.replace("$TOKEN","${token}")}\``:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")} } }`}function us(r,t){return`const response = await fetch(${JSON.stringify(r.href)}${Me(t)});
if (!response.ok) throw new Error((await response.json()).detail);
// It throws where the answer is cut.
const text = await response.text();`}function ms(r,t){return`const response = await fetch(${JSON.stringify(r.href)}${Me(t)});
if (!response.ok) throw new Error((await response.json()).detail);
const record = \`{"$rowstream":"\${response.headers.get("Rowstream-Tag")}",\`;
let rest = "", end;
for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split("\\n");
  rest = lines.pop();
  for (const line of lines.filter(Boolean)) {
    if (line.startsWith(record)) end = JSON.parse(line).end ?? end;
    else console.log(JSON.parse(line)); // a row
  }
}
if (!end) throw new Error("it is not whole");`}function Oe(r){return Object.keys(r).length===0?"":`, headers={${Object.entries(r).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: f"${s.replace("$TOKEN","{token}")}"`:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")}}`}function fs(r,t){return`import requests

response = requests.get(${JSON.stringify(r.href)}${Oe(t)})
response.raise_for_status()
body = response.content  # it raises where the answer is cut`}function gs(r,t){return`import json, requests

end = None
with requests.get(${JSON.stringify(r.href)}${Oe(t)}, stream=True) as response:
    response.raise_for_status()
    record = '{"$rowstream":"%s",' % response.headers["Rowstream-Tag"]
    for line in response.iter_lines():
        text = line.decode()
        if text.startswith(record):
            end = json.loads(text).get("end", end)
        elif text:
            print(json.loads(text))  # a row
if end is None:
    raise EOFError("it is not whole")`}var Ut=class extends k{render(t){return y}update(t,[e]){return Object.assign(t.element.style,e),y}},S=U(Ut);var $s=250,bs=/^process_resident_memory_bytes (\S+)$/m,qt=class extends w{static{this.properties={request:{attribute:!1},sides:{state:!0},rows:{state:!0},problem:{state:!0},isRunning:{state:!0}}}#t=new AbortController;constructor(){super(),this.sides=[],this.rows=0,this.isRunning=!1}createRenderRoot(){return this}disconnectedCallback(){super.disconnectedCallback(),this.#t.abort()}async#e(){let t=this.request();if(!(!t||this.isRunning)){this.isRunning=!0,this.sides=[],this.problem=void 0,this.#t=new AbortController;try{for(let e of[this.#n,this.#s])this.sides=[...this.sides,await this.#i(e,t)]}catch(e){let s=this.#t.signal.aborted?"It was stopped":"It cannot be compared";this.problem=e instanceof Error?{title:s,detail:e.message}:e}this.isRunning=!1}}async#i(t,e){let s=0,n=async()=>{let o=await v(new URL("metrics",x)).catch(()=>{}),a=o?.ok?bs.exec(await o.text()):null;s=Math.max(s,Number(a?.[1]??0))};await n();let i=setInterval(()=>{n()},$s);try{return{...await t(e),server:s}}finally{clearInterval(i)}}#n=async({url:t,headers:e})=>{let s=0,n=new K({url:Le(t,"ndjson"),headers:e,format:"ndjson"},()=>{s=Math.max(s,n.rows.text)});if(this.#t.signal.addEventListener("abort",()=>n.cancel()),await n.start(),n.problem)throw n.problem;if(n.state!=="complete"&&n.state!=="unproved")throw new Error(n.why||"It was stopped.");return this.rows=n.rows.total,{name:"As rows come",firstRow:n.firstRow??n.elapsed,whole:n.elapsed,held:s}};#s=async({url:t,headers:e})=>{let s=performance.now(),n=await v(Le(t,"json"),{headers:e,signal:this.#t.signal});if(!n.ok)throw await A(n);let i=await n.text();JSON.parse(i);let o=performance.now()-s;return{name:"Read whole, then parsed",firstRow:o,whole:o,held:i.length}};render(){return l`<details class="card compare">
      <summary>Compare with reading it whole</summary>
      <p>
        Reads the answer twice: as its rows come, and as most clients do, whole and then parsed. The second holds all of
        it in this tab.
      </p>
      <div class="actions">
        ${this.isRunning?l`<button type="button" class="stop" @click=${()=>this.#t.abort()}>Stop</button>`:l`<button type="button" @click=${()=>this.#e()}>Compare</button>`}
        <span class="quiet" role="status">
          ${this.isRunning?"Reading …":this.sides.length===2?`${g(this.rows)} rows, twice`:""}
        </span>
      </div>
      ${this.problem?z(this.problem):d} ${this.sides.length?this.#r():d}
    </details>`}#r(){let t=(e,s,n)=>{let i=Math.max(...this.sides.map(s),1e-9);return l`<tr>
        <th scope="row">${e}</th>
        ${this.sides.map(o=>l`<td>
            ${n(s(o))}
            <div class="bar" aria-hidden="true">
              <i class="database" ${S({flexGrow:String(s(o)/i)})}></i
              ><i ${S({flexGrow:String(1-s(o)/i)})}></i>
            </div>
          </td>`)}
      </tr>`};return l`<table>
      <thead>
        <tr>
          <td></td>
          ${this.sides.map(({name:e})=>l`<th scope="col">${e}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${t("First row after",({firstRow:e})=>e,E)}
        ${t("All rows after",({whole:e})=>e,E)}
        ${t("Text held in this tab",({held:e})=>e,_)}
        ${this.sides.every(({server:e})=>e>0)?t("Memory of the server, at most",({server:e})=>e,_):d}
      </tbody>
    </table>`}};function Le(r,t){let e=new URL(r);return e.searchParams.set("_format",t),e.searchParams.delete("_follow"),t!=="ndjson"&&e.searchParams.delete("_end"),e}customElements.define("rs-compare",qt);var B=29,Ue=8,qe=7.9,Ne=26,Nt=class extends w{static{this.properties={rows:{attribute:!1},total:{attribute:!1},follows:{attribute:!1},picked:{state:!0}}}#t=new ResizeObserver(()=>this.requestUpdate());constructor(){super(),this.picked=-1}createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#t.observe(this)}disconnectedCallback(){super.disconnectedCallback(),this.#t.disconnect()}get#e(){return this.querySelector(".scroller")}updated(){let t=this.#e;this.follows&&t&&(t.scrollTop=t.scrollHeight)}render(){let t=[...this.rows.columns],e=this.#e,[s,n]=[e?.scrollTop??0,e?.clientHeight||600],i=Math.max(0,Math.min(Math.floor(s/B),this.rows.length)-Ue),o=Math.min(this.rows.length,Math.ceil((s+n)/B)+Ue),a=[];for(let h=i;h<o;h+=1){let u=this.rows.at(h);u&&a.push(this.#i(h,u,t))}let c=Math.max(5,String(this.rows.total).length+2)*qe+Ne,p=t.map(([,h])=>Math.round(h*qe+Ne)),m=p.reduce((h,u)=>h+u,c);return l`<div
      class="scroller"
      tabindex="0"
      role="region"
      aria-label="Rows. Arrow keys choose a row, Enter shows it."
      @scroll=${()=>this.requestUpdate()}
      @keydown=${this.#r}
    >
      <div class="sizer" ${S({height:`${(this.rows.length+1)*B}px`})}>
        <table
          aria-rowcount=${this.rows.total+1}
          ${S({top:`${i*B}px`,minWidth:`${m}px`})}
        >
          <colgroup>
            <col ${S({width:`${c}px`})} />
            ${p.map(h=>l`<col ${S({width:`${h}px`})} />`)}
          </colgroup>
          <thead>
            <tr aria-rowindex="1">
              <th scope="col" class="number">#</th>
              ${t.map(([h])=>l`<th scope="col" title=${h}>${h}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${a}
          </tbody>
        </table>
      </div>
    </div>`}#i(t,e,s){if("from"in e){let i=`rows ${g(e.from)} to ${g(e.to)} came by and are not kept`;return l`<tr class="gap"><td colspan=${s.length+1}><span>${i}</span></td></tr>`}let n=new Map(it(e.line));return l`<tr
      class=${t===this.picked?"picked":""}
      aria-rowindex=${e.row+1}
      @click=${()=>this.#n(t)}
      @dblclick=${()=>this.#s(t)}
    >
      <th scope="row" class="number">${g(e.row)}</th>
      ${s.map(([i])=>ws(n.get(i)))}
    </tr>`}#n(t){this.picked=Math.max(0,Math.min(t,this.rows.length-1));let e=this.#e;if(!e)return;let s=this.picked*B,n=e.scrollTop+e.clientHeight-3*B;s<e.scrollTop?e.scrollTop=s:s>n&&(e.scrollTop+=s-n)}#s(t){let e=this.rows.at(t);!e||"from"in e||this.dispatchEvent(new CustomEvent("open-row",{detail:e,bubbles:!0}))}#r(t){let e=Math.floor((this.#e?.clientHeight??0)/B)-2,n={ArrowDown:1,ArrowUp:-1,PageDown:e,PageUp:-e,Home:-1/0,End:1/0}[t.key];if(t.key==="Enter")this.#s(this.picked);else if(n!==void 0)this.#n(Math.max(-1,this.picked)+n);else return;t.preventDefault()}};function ws(r){if(r===void 0)return l`<td></td>`;let{kind:t,text:e}=xe(r),s=e.length>300?`${e.slice(0,300)}…`:e;return l`<td class=${t} title=${e.length>30?s:d}>${s}</td>`}customElements.define("rs-table",Nt);var ot=[0,4e6,1e6,25e4,5e4,1e4],Ie=["pool","database","encode","client"],He={waiting:"Waiting for the first row",running:"Streaming",complete:"Complete",unproved:"Ended, not proved whole",truncated:"Truncated",failed:"Failed",cancelled:"Cancelled"},ys={ndjson:"NDJSON (table)",json:"JSON",csv:"CSV",sse:"Server-sent events","json-seq":"JSON text sequence",arrow:"Arrow"},Ht=class extends w{static{this.properties={endpoint:{attribute:!1},query:{attribute:!1},isFollowing:{state:!0},isPaused:{state:!0},speed:{state:!0},language:{state:!0},said:{state:!0}}}#t=!1;#e=0;constructor(){super(),this.isFollowing=this.isPaused=!1,this.speed=this.language=0,this.said=""}createRenderRoot(){return this}willUpdate(t){let e=t.get("endpoint");e&&e.path!==this.endpoint.path&&this.#i()}disconnectedCallback(){super.disconnectedCallback(),this.#i()}#i(){this.run?.cancel(),this.run=void 0,this.isFollowing=this.isPaused=!1,this.said=""}#n=()=>{this.#t||(this.#t=!0,requestAnimationFrame(()=>{this.#t=!1,this.requestUpdate()}))};get#s(){let{formats:t}=this.endpoint,e=this.query.get("_format")??"";return t.includes(e)?e:t.includes("ndjson")?"ndjson":t[0]??""}get#r(){return this.endpoint.controls.has("_follow")&&this.query.get("_follow")==="1"}#o(){let t=this.endpoint.path,e=new URLSearchParams,s={};for(let o of this.endpoint.params){let a=this.query.get(o.name)??"";if(o.in==="path")t=t.replace(`{${o.name}}`,encodeURIComponent(a));else{if(a==="")continue;if(o.in==="header")s[o.name]=a;else for(let c of vs(o,a))e.append(o.name,c)}}let n=this.#s;n&&e.set("_format",n),Re.includes(n)&&this.endpoint.controls.has("_end")&&e.set("_end","1"),this.#r&&e.set("_follow","1");let i=new URL(t.replace(/^\//,"./"),me);return i.search=e.toString(),{url:i,headers:s}}#a(t,e){let s=new URLSearchParams(this.query);e===""?s.delete(t):s.set(t,e),this.query=s;let n=s.toString();history.replaceState(null,"",`#/endpoints${this.endpoint.path}${n&&`?${n}`}`)}async#l(t){t?.preventDefault(),this.run?.cancel(),this.isPaused=!1;let{url:e,headers:s}=this.#o();this.run=new K({url:e,headers:s,format:this.#s},this.#n),this.isFollowing=this.#r,this.run.isRows&&!this.#r&&this.endpoint.controls.has("_explain")&&this.#h(this.run),await this.#c(this.run,this.run.start())}async#h(t){t.expected=await ke(t.asked),this.#n()}async#c(t,e){t.limit=ot[this.speed]??0,this.said="Running",this.requestUpdate(),await e,t===this.run&&(this.said=`${He[t.state]}, ${g(t.rows.total)} rows. ${t.problem?.detail??t.why}`)}#u(t){this.speed=Number(t.target.value),this.run&&(this.run.limit=ot[this.speed]??0)}#m(){this.isPaused=!this.isPaused,this.#e=this.run?.rows.total??0}async#d(t,e){await navigator.clipboard.writeText(e),this.said=`${t} copied`}render(){let{path:t,summary:e,needsToken:s}=this.endpoint;return l`<article aria-labelledby="title">
      <a class="back" href="#/endpoints">← All endpoints</a>
      <header class="title">
        <h1 id="title"><span class="method">GET</span> ${_s(t)}</h1>
        <button class="quiet" @click=${()=>this.#d("Link",location.href)}>Copy link</button>
      </header>
      ${e?l`<p class="summary">${e}</p>`:d}
      ${s&&!M()?l`<p class="note">It needs a token, which you have not entered.</p>`:d}
      ${this.#f()} ${this.run?this.#p(this.run):d} ${this.#v()}
      ${this.#_()} ${this.#S()} ${this.#x()}
      <p class="spoken" role="status" aria-live="polite">${this.said}</p>
    </article>`}#f(){let{params:t,formats:e,controls:s}=this.endpoint,n=this.run?.isRunning??!1;return l`<form class="card" @submit=${this.#l}>
      ${t.length?l`<div class="fields">${ve(t,i=>i.name,i=>this.#g(i))}</div>`:l`<p class="quiet">It takes no parameters.</p>`}
      <div class="actions">
        ${e.length>1?l`<label class="inline"
              ><span>Format</span>
              <select @change=${i=>this.#a("_format",i.target.value)}>
                ${e.map(i=>l`<option value=${i} ?selected=${i===this.#s}>
                    ${ys[i]??i}
                  </option>`)}
              </select></label
            >`:d}
        ${s.has("_follow")?l`<label class="inline check"
              ><input
                type="checkbox"
                .checked=${rt(this.#r)}
                @change=${i=>this.#a("_follow",i.target.checked?"1":"")}
              /><span>Live tail</span></label
            >`:d}
        <span class="grow"></span>
        ${n?l`<button type="button" class="stop" @click=${()=>this.run?.cancel()}>Cancel</button>`:l`<button type="submit" class="run">Run</button>`}
        <button type="button" @click=${this.#E} title="Save all of it to a file">Download</button>
      </div>
    </form>`}#g(t){let{name:e,schema:s,required:n,description:i}=t,o=`param-${e}`,a=this.query.get(e)??"",c=s.default===void 0||s.default===null?"":String(s.default),p=u=>this.#a(e,u.target.value),m=s.enum??s.items?.enum??(s.type==="boolean"?[!0,!1]:void 0),h=m&&s.type!=="array";return l`<div class="field">
      <label for=${o}
        >${e}${n?l`<span class="required" title="required">*</span>`:d}
        <span class="type">${et(s)}</span></label
      >
      ${h?l`<select id=${o} ?required=${n} aria-describedby="${o}-more" @change=${p}>
            <option value="" ?selected=${a===""}>${c||(n?"choose":"any")}</option>
            ${m.map(u=>l`<option value=${String(u)} ?selected=${a===String(u)}>${u}</option>`)}
          </select>`:l`<input
            id=${o}
            type=${It(s,a)??"text"}
            step=${s.format==="date-time"?"1":d}
            .value=${rt(It(s,a)?a.replace(/Z$/,""):a)}
            ?required=${n}
            placeholder=${c||Ss(t)}
            inputmode=${s.type==="integer"?"numeric":"text"}
            autocomplete="off"
            spellcheck="false"
            aria-describedby="${o}-more"
            @input=${p}
          />`}
      <small id="${o}-more">${xs(t,i,It(s,a)&&c)}</small>
    </div>`}#p(t){let e=t.elapsed,s=e>0?t.rows.total/e*1e3:0;return l`<section class="card result" aria-label="Result">
      <div class="progress">
        <span class="state ${t.state}" data-state=${t.state}>${He[t.state]}</span>
        ${t.isRows?G("rows",g(t.rows.total)):d}
        ${t.isRunning&&t.expected?G("expected by the planner",`of some ${g(t.expected)}`):d}
        ${t.isRows?G("rows/s",g(s)):d} ${G("received",_(t.bytes))}
        ${G("time",E(e))}
        ${t.firstRow===void 0?d:G("first row",E(t.firstRow))}
        <span class="grow"></span>
        ${this.#$(t)}
      </div>
      ${t.why?l`<p class="warning" role="alert">This answer is not whole: ${t.why}.</p>`:d}
      ${t.state==="unproved"?l`<p class="note">
            Nothing tells whether this was the end of it: the answer was compressed on its way, and its format has no
            record at the end. NDJSON has one.
          </p>`:d}
      ${t.problem?z(t.problem):d} ${Es(t)} ${this.#w(t)}
    </section>`}#$(t){let e=t.mark&&!t.isRunning&&t.state!=="complete";return l`${t.isRunning&&t.isRows?l`<button class="quiet" aria-pressed=${this.isPaused} @click=${this.#m}>
            ${this.isPaused?`Go on (${g(t.rows.total-this.#e)} new)`:"Pause"}
          </button>`:d}
      ${e?l`<button class="quiet" @click=${()=>this.#c(t,t.resume())}>
            Resume after row ${g(t.mark.rows)}
          </button>`:d}
      ${t.isRows?l`<label class="inline check"
            ><input
              type="checkbox"
              .checked=${rt(this.isFollowing)}
              @change=${s=>this.isFollowing=s.target.checked}
            /><span>Keep the last row in sight</span></label
          >`:d}
      <label class="inline" title="Be a slow client: the server and the database wait for you"
        ><span>Read at</span
        ><input
          type="range"
          min="0"
          max=${ot.length-1}
          .value=${rt(String(this.speed))}
          aria-valuetext=${De(this.speed)}
          @input=${this.#u}
        /><output>${De(this.speed)}</output></label
      >`}#w(t){if(t.isRows){if(t.rows.total===0)return t.state==="complete"?l`<p class="empty">There are no rows.</p>`:d;let s=this.isPaused?this.#e:t.rows.total;return l`<rs-table
        .rows=${t.rows}
        .total=${s}
        .follows=${this.isFollowing&&!this.isPaused}
        @open-row=${this.#y}
      ></rs-table>`}if(t.asked.format==="arrow")return l`<p class="empty">Arrow is binary: download it to read it.</p>`;if(!t.text)return d;let e=t.bytes<=t.text.length*3&&t.text.length<1e5;return l`<pre class="text" tabindex="0" role="region" aria-label="The answer">${t.text}</pre>
      ${e?d:l`<p class="quiet">These are the first letters of ${_(t.bytes)}.</p>`}`}#y(t){let{row:e,line:s}=t.detail,n=this.querySelector("dialog")??document.createElement("dialog");n.replaceChildren(),n.ariaLabel=`Row ${e}`;let i=document.createElement("h2");i.textContent=`Row ${g(e)}`;let o=document.createElement("dl");for(let[c,p]of it(s)){let[m,h]=[document.createElement("dt"),document.createElement("dd")];[m.textContent,h.textContent]=[c,p],o.append(m,h)}let a=document.createElement("button");a.textContent="Close",a.onclick=()=>n.close(),n.append(i,o,a),this.append(n),n.showModal()}#v(){let{url:t,headers:e}=this.#o(),s=Ce(t,e,this.#s,M()!==""),{name:n,text:i}=s[this.language];return l`<section class="card code" aria-label="The same request elsewhere">
      <div class="tabs" role="group" aria-label="Language">
        ${s.map(({name:o},a)=>l`<button
            class="tab"
            aria-pressed=${a===this.language}
            @click=${()=>this.language=a}
          >
            ${o}
          </button>`)}
        <span class="grow"></span>
        <button class="quiet" @click=${()=>this.#d(n,i)}>Copy</button>
      </div>
      <pre tabindex="0" role="region" aria-label=${n}>${i}</pre>
    </section>`}#b=()=>this.querySelector("form")?.reportValidity()?this.#o():void 0;#_(){return this.endpoint.controls.has("_explain")?Ot(this.endpoint.path,l`<rs-plan .request=${this.#b}></rs-plan>`):d}#S(){let{formats:t}=this.endpoint;return!t.includes("ndjson")||!t.includes("json")?d:Ot(this.endpoint.path,l`<rs-compare .request=${this.#b}></rs-compare>`)}#x(){let{columns:t}=this.endpoint;return t.length===0?d:l`<details class="card">
      <summary>${t.length} columns</summary>
      <dl class="columns">
        ${t.map(({name:e,schema:s})=>l`<dt>${e}</dt><dd>${et(s)}</dd>`)}
      </dl>
    </details>`}#E=async()=>{let t=this.#b();if(!t)return;let{url:e,headers:s}=t;e.searchParams.delete("_end"),e.searchParams.delete("_follow");let n=this.endpoint.path.replaceAll(/[^\w-]+/g,"-").replaceAll(/^-+|-+$/g,"")||"rows";this.endpoint.controls.has("_download")&&e.searchParams.set("_download",n);let i=document.createElement("a");if(i.download=`${n}.${this.#s||"txt"}`,i.href=e.href,M()||Object.keys(s).length>0){this.said="Downloading";try{let o=await v(e,{headers:s});if(!o.ok)throw new Error(`status ${o.status}`);i.href=URL.createObjectURL(await o.blob())}catch(o){this.said=`The download failed, nothing is saved: ${String(o)}`;return}}i.click(),this.said=`${i.download} is downloaded by the browser`}};function vs(r,t){return r.schema.type==="array"?t.split(",").map(e=>e.trim()):[t]}function _s(r){return r.split(/(\{[^}]*\})/).map(t=>t.startsWith("{")?l`<em>${t}</em>`:t)}function Ss({schema:r,required:t}){let e={date:"2026-12-31","date-time":"2026-12-31T12:00:00Z",uuid:"00000000-0000-0000-0000-000000000000",duration:"PT10S"};return r.type==="array"?"1,2,3":e[r.format??""]??(t?"":"not given")}function It({format:r},t){if(r==="date"&&/^(\d{4}-\d\d-\d\d)?$/.test(t))return"date";if(r==="date-time"&&/^(\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z?)?$/.test(t))return"datetime-local"}function xs({schema:r,in:t,name:e},s="",n=""){let i=[r.minimum===void 0?"":`from ${r.minimum}`,r.maximum===void 0?"":`to ${r.maximum}`],o=t==="query"?"":t==="path"?"in the path":`header ${e}`,a=n?`${n} unless given`:"",c=r.format==="date-time"?"UTC":"";return[s,i.filter(Boolean).join(" "),c,a,o].filter(Boolean).join(" · ")}function G(r,t){return l`<span class="fact"><b>${t}</b> <span>${r}</span></span>`}var De=r=>ot[r]?`${_(ot[r])}/s`:"full speed";function Es(r){let t=Object.entries(r.report?.ms??{}).filter(([i])=>Ie.includes(i)),e=t.length?t:r.timing.filter(([i])=>Ie.includes(i)),s=e.reduce((i,[,o])=>i+o,0),n=r.report&&r.isRunning?`The server has sent ${_(r.report.bytes)}.`:"";return s===0?n?l`<p class="quiet phases">${n}</p>`:d:l`<div class="phases">
    <div class="bar" aria-hidden="true">
      ${e.map(([i,o])=>l`<i class=${i} ${S({flexGrow:String(o/s)})}></i>`)}
    </div>
    <p class="quiet">
      ${t.length?"Where the server's time went:":"Until the first row:"}
      ${e.map(([i,o])=>l`<span class="key ${i}">${i} ${E(o)}</span> `)} ${n}
    </p>
  </div>`}customElements.define("rs-endpoint",Ht);var Rs=2e3,As=15*6e4,ks=2*6e4,Ts=5,Fe="rowstream_request_duration_seconds_bucket",at=["pool","database","encode","client"],$=[],je=0,Ps=/^(rowstream_(requests|rows|sent_bytes|phase_seconds)_total|rowstream_(streams_running|permits|permits_max|pool_(used|max|waiting|idle)|connections|host_in_flight|request_duration_seconds_bucket)|process_(resident_memory_bytes|cpu_seconds_total))(?:\{(.*)\})? (\S+)$/;function Cs(r){let t=new Map;for(let e of r.split(`
`)){let s=Ps.exec(e);if(!s)continue;let[n,i,o]=[s[1],s.at(-2)??"",Number(s.at(-1))],a=t.get(n)??new Map;t.set(n,a.set(i,o))}return t}function Ms({series:r},{at:t,values:e}){let s=new Map;return e.forEach((n,i)=>{let{name:o,labels:a}=r[i];n!==null&&s.set(o,(s.get(o)??new Map).set(a,n))}),{at:t,isWhole:!1,metrics:s}}function Be(r){let t=$.at(-1)?.at??0;$.at(-1)?.metrics.delete(Fe),$.push(...r.filter(({at:e})=>e>t)),$=$.filter(({at:e})=>e>$.at(-1).at-As)}var R=(r,t)=>new RegExp(`(?:^|,)${t}="((?:[^"\\\\]|\\\\.)*)"`).exec(r)?.[1]??"";function F(r,t,e=()=>!0){let s=0;for(let[n,i]of r.metrics.get(t)??[])e(n)&&(s+=i);return s}function yt(r,t,e=()=>!0){let s=$[r],n=$.slice(Math.max(0,r-Ts),r).find(e)??s,i=(s.at-n.at)/1e3;return i>0?Math.max(0,t(s)-t(n))/i:0}var Dt=class extends w{static{this.properties={failure:{state:!0},refused:{state:!0},streams:{state:!0}}}#t=0;#e=!1;createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#i().then(()=>this.#n()),this.#t=setInterval(()=>{this.#n()},Rs)}disconnectedCallback(){super.disconnectedCallback(),clearInterval(this.#t)}async#i(){this.#e=!0;let t=await st(`history?after=${$.at(-1)?.at??0}`).catch(()=>{});t&&(je=t.now-Date.now(),Be(t.moments.map(e=>Ms(t,e)))),this.#e=!1}async#n(){if(!this.#e){this.#e=!0;try{let t=await v(new URL("metrics",x),{headers:{Accept:"text/plain"}});if(!t.ok){this.failure=await A(t);return}let e=Cs(await t.text());Be([{at:Date.now()+je,isWhole:!0,metrics:e}]),this.streams=await st("streams").catch(()=>{}),this.failure=void 0}catch(t){this.failure={title:"The server cannot be reached",detail:String(t)}}finally{this.#e=!1}this.requestUpdate()}}async#s(t){let e=await v(new URL(`streams/${t}`,x),{method:"DELETE"}),s=e.ok||e.status===404||e.status===409;this.refused=s?void 0:await A(e),await this.#n()}render(){return l`<article aria-labelledby="title">
      <header class="title"><h1 id="title">Live</h1></header>
      <p class="summary">The last 15 minutes, and now; asked for every two seconds.</p>
      ${this.failure?this.#r(this.failure):d} ${$.length?this.#a():d}
      ${this.refused?this.#r(this.refused):d}
      ${this.streams?.streams.length?this.#o(this.streams):d}
    </article>`}#r({status:t,title:e,detail:s}){let n=t===404?"With `admin_listen` the metrics are at that port alone, and so is this view.":t===401||t===403?"Enter a token that [admin] names in rowstream.toml.":"";return l`<div class="card problem" role="alert">
      <h2>${t?l`<span>${t}</span>`:d} ${e}</h2>
      <p>${s}</p>
      <p class="hint">${n}</p>
    </div>`}#o({streams:t,more:e}){return l`<section class="card live" aria-label="Each stream in flight" tabindex="0">
      <table>
        <thead>
          <tr>
            <th scope="col">Stream</th>
            <th scope="col">Format</th>
            <th scope="col" class="number">Runs for</th>
            <th scope="col" class="number">Rows</th>
            <th scope="col" class="number">Sent</th>
            <th scope="col">Where the time went</th>
            <th scope="col"><span class="quiet">Stop</span></th>
          </tr>
        </thead>
        <tbody>
          ${t.map(({id:s,endpoint:n,format:i,started:o,rows:a,bytes:c,ms:p})=>l`<tr>
              <th scope="row">${n}</th>
              <td>${i}</td>
              <td class="number">${E(Math.max(0,Date.now()-Date.parse(o)))}</td>
              <td class="number">${g(a)}</td>
              <td class="number">${_(c)}</td>
              <td>${We(at.map(m=>(p[m]??0)/1e3))}</td>
              <td>
                <button class="stop" aria-label="Stop the stream ${s} of ${n}" @click=${()=>this.#s(s)}>
                  Stop
                </button>
              </td>
            </tr>`)}
        </tbody>
      </table>
      ${e?l`<p class="quiet">and ${g(e)} more</p>`:d}
    </section>`}#a(){let t=$.at(-1),e=p=>R(p,"endpoint")!=="/_rowstream/",s=p=>e(p)&&R(p,"outcome")==="complete",n=p=>e(p)&&R(p,"outcome")!=="complete",i=(p,m=e)=>h=>yt(h,u=>F(u,p,m)),o=p=>m=>F($[m],p),a=p=>yt(p,m=>F(m,"process_cpu_seconds_total"))*100,c=F(t,"rowstream_permits_max");return l`<div class="charts">
        ${L("Streams in flight",o("rowstream_streams_running"),g,`of ${g(c)} at most`)}
        ${L("Rows per second",i("rowstream_rows_total"),g)}
        ${L("Sent per second",i("rowstream_sent_bytes_total"),_)}
        ${L("Requests per second",i("rowstream_requests_total",s),Bt,"that were complete")}
        ${L("Other ends per second",i("rowstream_requests_total",n),Bt,"not complete")}
        ${L("Memory",o("process_resident_memory_bytes"),_,"resident")}
        ${L("Processor",a,p=>`${p.toFixed(0)} %`,"of one core")}
        ${jt(t,"rowstream_pool_used").map(Ls)} ${jt(t,"rowstream_host_in_flight").map(Os)}
      </div>
      ${Ns(t)}`}},jt=(r,t)=>[...r.metrics.get(t)?.keys()??[]];function Os(r){let t=e=>$[e].metrics.get("rowstream_host_in_flight")?.get(r)??0;return L(`Host ${R(r,"host")}`,t,g,`in flight, of ${R(r,"source")}`)}function Ls(r){let t=(n,i=$.length-1)=>$[i].metrics.get(n)?.get(r)??0,e=t("rowstream_pool_waiting"),s=`of ${t("rowstream_pool_max")}, ${e} waiting`;return L(`Pool of ${R(r,"source")}`,n=>t("rowstream_pool_used",n),g,s)}var Bt=r=>r<10?r.toFixed(1):g(r);function L(r,t,e,s=""){let n=$.map((h,u)=>t(u)),i=Math.max(...n,1e-9),o=$.at(-1).at,a=Math.max(ks,o-$[0].at),c=h=>(200-200*(o-$[h].at)/a).toFixed(1),p=n.map((h,u)=>`${c(u)},${(46-h/i*42).toFixed(1)}`),m=`${c(0)},48 ${p.join(" ")} 200,48`;return l`<section class="card chart" aria-label=${r}>
    <h2>${r}</h2>
    <p><b>${e(n.at(-1)??0)}</b> <span class="quiet">${s}</span></p>
    <svg viewBox="0 0 200 48" preserveAspectRatio="none" role="img" aria-label="at most ${e(i)}">
      ${le`<polygon points=${m}></polygon><polyline points=${p.join(" ")}></polyline>`}
    </svg>
    <p class="quiet">at most ${e(Math.max(...n))}</p>
  </section>`}function Us(r,t){let e=[...r.metrics.get(Fe)??[]].filter(([n])=>R(n,"endpoint")===t).map(([n,i])=>({bound:Number(R(n,"le").replace("+Inf","Infinity")),count:i})).sort((n,i)=>n.bound-i.bound),s=e.at(-1)?.count??0;return s?e.find(({count:n})=>n>=.95*s)?.bound:void 0}var qs=r=>r===void 0?"":r===1/0?"longer":E(r*1e3);function Ns(r){let t=jt(r,"rowstream_streams_running"),e=$.length-1,s=i=>i.isWhole,n=t.map(i=>{let o=R(i,"endpoint"),a=h=>R(h,"endpoint")===o,c=h=>yt(e,u=>F(u,h,a),s),p=h=>u=>a(u)&&R(u,"phase")===h,m=at.map(h=>yt(e,u=>F(u,"rowstream_phase_seconds_total",p(h)),s));return{path:o,running:F(r,"rowstream_streams_running",a),of:c,phases:m,most:Us(r,o)}});return n.sort((i,o)=>(o.most??-1)-(i.most??-1)),l`<section class="card live" aria-label="Endpoints now" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">Endpoint</th>
          <th scope="col" class="number">Streams</th>
          <th scope="col" class="number">Requests/s</th>
          <th scope="col" class="number">Rows/s</th>
          <th scope="col" class="number">95 % within</th>
          <th scope="col">Where the time goes</th>
        </tr>
      </thead>
      <tbody>
        ${n.map(({path:i,running:o,of:a,phases:c,most:p})=>l`<tr>
            <th scope="row"><a href="#/endpoints${i}">${i}</a></th>
            <td class="number">${g(o)}</td>
            <td class="number">${Bt(a("rowstream_requests_total"))}</td>
            <td class="number">${g(a("rowstream_rows_total"))}</td>
            <td class="number">${qs(p)}</td>
            <td>${We(c)}</td>
          </tr>`)}
      </tbody>
    </table>
    <p class="quiet">${at.map(i=>l`<span class="key ${i}">${i}</span>`)}</p>
  </section>`}function We(r){let t=r.reduce((s,n)=>s+n,0);if(t===0)return d;let e=r.map((s,n)=>`${at[n]} ${E(s*1e3)}`).join(", ");return l`<div class="bar" role="img" aria-label=${e}>
    ${r.map((s,n)=>l`<i class=${at[n]} ${S({flexGrow:String(s/t)})}></i>`)}
  </div>`}customElements.define("rs-live",Dt);var Je="rowstream.theme",Ft=["auto","light","dark"],Wt=class extends w{constructor(){super();this.query=new URLSearchParams;this.search=this.path="",this.theme=localStorage.getItem(Je)??"auto",this.#t(),this.#s(),addEventListener("hashchange",()=>this.#t()),this.#e()}static{this.properties={endpoints:{state:!0},failure:{state:!0},search:{state:!0},path:{state:!0},theme:{state:!0}}}createRenderRoot(){return this}#t(){let[e="",s=""]=location.hash.slice(1).split(/\?(.*)/s);this.query=new URLSearchParams(s),this.path=Is(e)||"/endpoints",this.requestUpdate()}async#e(){try{this.endpoints=ue(await st("openapi.json")),this.failure=void 0}catch(e){let s=!(e instanceof Error);this.failure=s?e:{title:"The server cannot be reached",detail:e.message}}}get#i(){return this.endpoints?.find(({path:e})=>this.path===`/endpoints${e}`)}#n(){this.theme=Ft[(Ft.indexOf(this.theme)+1)%Ft.length],localStorage.setItem(Je,this.theme),this.#s()}#s(){document.documentElement.dataset.theme=this.theme}updated(){let e=this.#i;document.title=e?`${e.path} · Rowstream`:"Rowstream console"}render(){let e=this.#i;return l`<a class="skip" href="#main" @click=${this.#c}>Skip the navigation</a>
      <header class="top">
        <a class="brand" href="#/endpoints">${Hs} Rowstream</a>
        <a class="tab" href="#/endpoints" aria-current=${this.path==="/live"?d:"page"}>Endpoints</a>
        <a class="tab" href="#/live" aria-current=${this.path==="/live"?"page":d}>Live</a>
        <span class="grow"></span>
        <button class="quiet" @click=${this.#n}>Theme: ${this.theme}</button>
        <button class="quiet" @click=${this.#a}>${M()?"Token ✓":"Token"}</button>
      </header>
      ${this.path==="/live"?l`<div class="page wide"><main id="main" tabindex="-1"><rs-live></rs-live></main></div>`:l`<div class="page ${e?"has-chosen":""}">
            <nav aria-label="Endpoints">${this.#r()}</nav>
            <main id="main" tabindex="-1">
              ${e?l`<rs-endpoint .endpoint=${e} .query=${this.query}></rs-endpoint>`:this.#o()}
            </main>
          </div>`}
      ${this.#l()}`}#r(){if(this.failure)return l`<div class="problem" role="alert">
        <h2>${this.failure.title}</h2>
        <p>${this.failure.detail}</p>
        <button @click=${()=>this.#e()}>Try again</button>
      </div>`;let e=this.search.toLowerCase().split(/\s+/),s=(this.endpoints??[]).filter(({path:n,summary:i})=>e.every(o=>`${n} ${i}`.toLowerCase().includes(o)));return l`<input
        type="search"
        placeholder="Search endpoints"
        aria-label="Search endpoints"
        .value=${this.search}
        @input=${n=>this.search=n.target.value}
      />
      <ul>
        ${s.map(({path:n,summary:i,needsToken:o})=>l`<li>
            <a href="#/endpoints${n}" aria-current=${this.path===`/endpoints${n}`?"page":d}>
              <code>${n}</code>${o?l`<span class="lock" title="needs a token">token</span>`:d}
              ${i?l`<small>${i}</small>`:d}
            </a>
          </li>`)}
      </ul>
      ${this.endpoints&&s.length===0?l`<p class="quiet">${this.search?"None is called so.":"There is none that you may call."}</p>`:d}`}#o(){let e=this.endpoints&&this.path!=="/endpoints";return l`<div class="welcome">
      <h1>${e?"There is no such endpoint":"SQL as streaming HTTP endpoints"}</h1>
      <p>
        ${e?"It may need a token, or it is gone. Choose another one.":"Choose an endpoint, fill in its parameters and run it: rows are shown as they come, in constant memory."}
      </p>
    </div>`}#a(){this.querySelector("dialog.token").showModal()}#l(){return l`<dialog class="token" aria-labelledby="token-title">
      <form method="dialog" @submit=${this.#h}>
        <h2 id="token-title">Your token</h2>
        <p>It is sent as a bearer token, and kept by this tab until you close it.</p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" .value=${M()} />
        <div class="actions">
          <span class="grow"></span>
          <button type="button" @click=${()=>this.querySelector("dialog.token").close()}>
            Cancel
          </button>
          <button class="run">Use it</button>
        </div>
      </form>
    </dialog>`}#h(e){e.preventDefault(),fe(this.querySelector("#token").value.trim()),this.querySelector("dialog.token").close(),this.#e(),this.requestUpdate()}#c(e){e.preventDefault(),this.querySelector("main").focus()}};function Is(r){try{return decodeURI(r)}catch{return r}}var Hs=l`<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
  <rect x="2" y="4" width="20" height="3.4" rx="1.7" />
  <rect x="6" y="10.3" width="16" height="3.4" rx="1.7" opacity=".75" />
  <rect x="10" y="16.6" width="12" height="3.4" rx="1.7" opacity=".5" />
</svg>`;customElements.define("rs-app",Wt);
/*! Bundled license information:

@lit/reactive-element/css-tag.js:
  (**
   * @license
   * Copyright 2019 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

@lit/reactive-element/reactive-element.js:
lit-html/lit-html.js:
lit-element/lit-element.js:
lit-html/directive.js:
lit-html/directives/repeat.js:
  (**
   * @license
   * Copyright 2017 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/is-server.js:
  (**
   * @license
   * Copyright 2022 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/directive-helpers.js:
lit-html/directives/live.js:
  (**
   * @license
   * Copyright 2020 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/directives/keyed.js:
  (**
   * @license
   * Copyright 2021 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)
*/
